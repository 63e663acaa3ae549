"""A model that learns pairs of sentences, and the loop over two corpora that trains it.

Letters: S steps of the encoder, T of the decoder, N sentences of a batch, V words.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import random
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from caffe2.python.models.seq2seq import seq2seq_util
from caffe2.python.models.seq2seq._arguments import add_corpora, add_extents, encoder_decoder_params
from caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper
from tazza.db import sentences
from tazza.runtime.files import write_bytes_atomically

data_parallel_model: Any = import_module("caffe2.python.data_parallel_model")
"""What makes nets for several GPUs; it may be one of those that are not there."""

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)
logger.addHandler(logging.StreamHandler(sys.stderr))

Batch = sentences.SentenceBatch
INPUTS = Batch._fields


def prepare_batch(batch: Sequence[Any]) -> Batch:
    """Return pairs of numbered sentences as a net takes them.

    Raises:
        ArgumentError: there is no pair, or what should be a number is none.
    """
    return sentences.sentence_batch(batch)


class Seq2SeqModelCaffe2:
    """A net that trains, one that only tells the loss, and the blobs of both in the current workspace."""

    def __init__(
        self,
        model_params: Mapping[str, Any],
        source_vocab_size: int,
        target_vocab_size: int,
        num_gpus: int = 1,
        num_cpus: int = 1,
    ) -> None:
        """Take what the nets are made from.

        Args:
            model_params: "encoder_type", as `build_embedding_encoder` takes it; "decoder_layer_configs" and
                "attention", as `build_embedding_decoder` does; "encoder_embedding_size", "decoder_embedding_size",
                elements of a row for each word; "decoder_softmax_size", of a layer before the scores, or None;
                "batch_size", N; "optimizer_params" with "learning_rate"; "max_gradient_norm".
            source_vocab_size: V of source sentences.
            target_vocab_size: V of target sentences.
            num_gpus: 0 to run on the CPU.
            num_cpus: threads of kernels.
        """
        self.model_params = model_params
        self.encoder_type = "rnn"
        self.encoder_params = model_params["encoder_type"]
        self.source_vocab_size = source_vocab_size
        self.target_vocab_size = target_vocab_size
        self.num_gpus = num_gpus
        self.num_cpus = num_cpus
        self.batch_size = model_params["batch_size"]
        flags = ["caffe2", "--caffe2_log_level=0", "--v=0", "--caffe2_handle_executor_threads_exceptions=1"]
        workspace.GlobalInit([*flags, f"--caffe2_mkl_num_threads={num_cpus}"])

    def __enter__(self) -> Seq2SeqModelCaffe2:
        """Return the model."""
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        """Empty the workspace."""
        workspace.ResetWorkspace()

    # -- what nets are made of -----------------------------------------------------------------------------------------

    def _build_shared(self, model: Any) -> None:
        """Add what does not depend on the device that computes: rate, count of steps, time of the start."""
        rate = float(self.model_params["optimizer_params"]["learning_rate"])
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
            self.learning_rate, self.global_step, self.start_time = (
                model.AddParam(name=name, init_value=value, trainable=False)
                for name, value in (("learning_rate", rate), ("global_step", 0), ("start_time", time.time()))
            )

    def _build_embeddings(self, model: Any) -> None:
        """Add the rows of words; their elements have a variance of 1."""
        bound = math.sqrt(3)
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU)):
            self.encoder_embeddings, self.decoder_embeddings = (
                model.param_init_net.UniformFill(
                    [],
                    f"{side}_embeddings",
                    shape=[size, self.model_params[f"{side}_embedding_size"]],
                    min=-bound,
                    max=bound,
                )
                for side, size in (("encoder", self.source_vocab_size), ("decoder", self.target_vocab_size))
            )
        model.params += [self.encoder_embeddings, self.decoder_embeddings]

    def model_build_fun(self, model: Any, forward_only: bool = False, loss_scale: float | None = None) -> list[Any]:
        """Add what tells the loss; return the blob that gradients start from: the loss of a batch over N.

        Args:
            model: gets it.
            forward_only: unused, as it was: what is dropped while a net trains is dropped in any.
            loss_scale: unused, as it was.
        """
        del forward_only, loss_scale
        inputs, lengths, decoder_inputs, decoder_lengths, targets, weights = model.net.AddScopedExternalInputs(*INPUTS)
        attention = self.model_params["attention"]
        outputs, weighted, hidden, cells, units = seq2seq_util.build_embedding_encoder(
            model=model,
            encoder_params=self.encoder_params,
            num_decoder_layers=len(self.model_params["decoder_layer_configs"]),
            inputs=inputs,
            input_lengths=lengths,
            vocab_size=self.source_vocab_size,
            embeddings=self.encoder_embeddings,
            embedding_size=self.model_params["encoder_embedding_size"],
            use_attention=attention != "none",
            num_gpus=self.num_gpus,
        )
        decoded, size = seq2seq_util.build_embedding_decoder(
            model,
            decoder_layer_configs=self.model_params["decoder_layer_configs"],
            inputs=decoder_inputs,
            input_lengths=decoder_lengths,
            encoder_lengths=lengths,
            encoder_outputs=outputs,
            weighted_encoder_outputs=weighted,
            final_encoder_hidden_states=hidden,
            final_encoder_cell_states=cells,
            encoder_units_per_layer=units,
            vocab_size=self.target_vocab_size,
            embeddings=self.decoder_embeddings,
            embedding_size=self.model_params["decoder_embedding_size"],
            attention_type=attention,
            forward_only=False,
            num_gpus=self.num_gpus,
        )
        logits = seq2seq_util.output_projection(
            model=model,
            decoder_outputs=decoded,
            decoder_output_size=size,
            target_vocab_size=self.target_vocab_size,
            decoder_softmax_size=self.model_params["decoder_softmax_size"],
        )
        return [self._loss(model, logits, targets, weights)]

    def _loss(self, model: Any, logits: Any, targets: Any, weights: Any) -> Any:
        """Add the loss of all words, `total_loss_scalar`; return it over N."""
        net = model.net
        targets, weights = (
            net.Reshape([blob], [name, f"{name}_old_shape"], shape=[-1])[0]
            for blob, name in ((targets, "targets"), (weights, "target_weights"))
        )
        names = ["OutputProbs_INVALID", "loss_per_word"]
        _, each = net.SoftmaxWithLoss([logits, targets, weights], names, only_loss=True)
        total = net.Mul([each, net.SumElements([weights], "num_words")], "total_loss_scalar")
        return net.Scale([total], "total_loss_scalar_weighted", scale=1.0 / self.batch_size)

    def forward_model_build_fun(self, model: Any, loss_scale: float | None = None) -> list[Any]:
        """Add what tells the loss, for a net without a backward pass."""
        return self.model_build_fun(model=model, forward_only=True, loss_scale=loss_scale)

    # -- updates -------------------------------------------------------------------------------------------------------

    def _calc_norm_ratio(self, model: Any, params: Sequence[Any], scope: str, ONE: Any) -> Any:
        """Add what gradients are scaled by: 1, or less where the norm of all is over `max_gradient_norm`."""
        del ONE
        net = model.net
        with core.NameScope(scope):
            sums: list[Any] = []
            for i, param in enumerate(params):
                gradient = model.param_to_grad[param]
                values = gradient.values if isinstance(gradient, core.GradientSlice) else gradient
                squared = net.Sqr([values], [f"grad_{i}_squared"])
                sums.append(net.SumElements([squared], [f"grad_{i}_squared_sum"]))
            total = net.Sum(sums, ["grad_squared_full_sum"])
            norm = net.Pow([total], ["global_norm"], exponent=0.5)
            largest = float(self.model_params["max_gradient_norm"])
            clip_norm = model.param_init_net.ConstantFill([], ["clip_norm"], shape=[], value=largest)
            max_norm = net.Max([norm, clip_norm], ["max_norm"])
            return net.Div([clip_norm, max_norm], ["norm_ratio"])

    def _apply_norm_ratio(
        self, norm_ratio: Any, model: Any, params: Sequence[Any], learning_rate: Any, scope: str, ONE: Any
    ) -> None:
        """Add the update of each parameter: less its gradient, times rate and ratio."""
        net = model.net
        for param in params:
            gradient = model.param_to_grad[param]
            negative = net.Negative([learning_rate], ["negative_learning_rate"])
            with core.NameScope(scope):
                rate = net.Mul([negative, norm_ratio], ["update_coeff"], broadcast=1)
            if isinstance(gradient, core.GradientSlice):
                net.ScatterWeightedSum([param, ONE, gradient.indices, gradient.values, rate], param)
            else:
                net.WeightedSum([param, ONE, gradient, rate], param)

    def _clipped_update(self, model: Any, scope: str, sparse: bool) -> None:
        one = model.param_init_net.ConstantFill([], ["ONE"], shape=[1], value=1.0)
        rate: Any = self.learning_rate
        if self.num_gpus > 0 and not sparse:
            rate = model.CopyCPUToGPU(rate, "LR")
        gradients = model.param_to_grad
        chosen = [
            param
            for param in model.GetParams()
            if param in gradients and isinstance(gradients[param], core.GradientSlice) is sparse
        ]
        logger.info("%s trainable variables: ", "Sparse" if sparse else "Dense")
        for param in chosen:
            logger.info("%s", param)
        ratio = self._calc_norm_ratio(model, chosen, scope, one)
        self._apply_norm_ratio(ratio, model, chosen, rate, scope, one)

    def norm_clipped_grad_update(self, model: Any, scope: str) -> None:
        """Add the updates of parameters that have dense gradients."""
        self._clipped_update(model, scope, sparse=False)

    def norm_clipped_sparse_grad_update(self, model: Any, scope: str) -> None:
        """Add the updates of parameters that have gradients of rows."""
        self._clipped_update(model, scope, sparse=True)

    # -- making and running nets ---------------------------------------------------------------------------------------

    def _build_model(self, init_params: bool) -> None:
        """Build both nets."""
        models = [Seq2SeqModelHelper(init_params=init_params) for _ in range(2)]
        for one in models:
            self._build_shared(one)
            self._build_embeddings(one)
        trained, told = models
        if self.num_gpus == 0:
            trained.AddGradientOperators(self.model_build_fun(trained))
            self._update(trained)
            self.norm_clipped_sparse_grad_update(trained, scope="norm_clipped_sparse_grad_update")
            self.forward_model_build_fun(told)
        else:
            self._parallelized(told, self.forward_model_build_fun, None)
            self._parallelized(trained, self.model_build_fun, self._update)
            self.norm_clipped_sparse_grad_update(trained, scope="norm_clipped_sparse_grad_update")
        self.model: Any = trained
        self.forward_net: Any = told.net

    def _update(self, model: Any) -> None:
        self.norm_clipped_grad_update(model, scope="norm_clipped_grad_update")

    def _parallelized(self, model: Any, forward: Callable[..., Any], update: Callable[..., Any] | None) -> None:
        """Add the same net for each GPU."""

        def without_inputs(model: Any) -> None:
            del model  # they are fed

        data_parallel_model.Parallelize_GPU(
            model,
            input_builder_fun=without_inputs,
            forward_pass_builder_fun=forward,
            param_update_builder_fun=update,
            devices=list(range(self.num_gpus)),
        )

    def _init_model(self) -> None:
        """Make parameters and nets in the current workspace."""
        workspace.RunNetOnce(self.model.param_init_net)
        for net in (self.model.net, self.forward_net):
            workspace.CreateNet(net, input_blobs=[str(blob) for blob in net.external_inputs])

    def initialize_from_scratch(self) -> None:
        """Build the nets, and make new parameters."""
        logger.info("Initializing Seq2SeqModelCaffe2 from scratch: Start")
        self._build_model(init_params=True)
        self._init_model()
        logger.info("Initializing Seq2SeqModelCaffe2 from scratch: Finish")

    def get_current_step(self) -> Any:
        """Return how many steps trained the parameters."""
        return workspace.FetchBlob(self.global_step)[0]

    def inc_current_step(self) -> None:
        """Count one."""
        workspace.FeedBlob(self.global_step, np.array([self.get_current_step() + 1]))

    def total_loss_scalar(self) -> Any:
        """Return the loss of all words of the last batch."""
        if self.num_gpus == 0:
            return workspace.FetchBlob("total_loss_scalar")
        return sum(workspace.FetchBlob(f"gpu_{gpu}/total_loss_scalar") for gpu in range(self.num_gpus))

    def step(self, batch: Sequence[Any], forward_only: bool) -> Any:
        """Run a net for pairs of numbered sentences; return the loss of all words, before the update if it trains.

        Raises:
            ArgumentError: there is no pair, or what should be a number is none.
        """
        if self.num_gpus == 0:
            for name, value in prepare_batch(batch)._asdict().items():
                workspace.FeedBlob(name, value)
        else:
            self._feed_gpus(batch)
        workspace.RunNet(self.forward_net if forward_only else self.model.net)
        if not forward_only:
            self.inc_current_step()
        return self.total_loss_scalar()

    def _feed_gpus(self, batch: Sequence[Any]) -> None:
        """Feed each GPU its pairs; the numbers of words lie on the CPU, as the rows of words do."""
        for gpu in range(self.num_gpus):
            for name, value in prepare_batch(batch[gpu :: self.num_gpus])._asdict().items():
                on_cpu = name in ("encoder_inputs", "decoder_inputs")
                device = core.DeviceOption(caffe2_pb2.CPU) if on_cpu else core.DeviceOption(caffe2_pb2.CUDA, gpu)
                workspace.FeedBlob(f"gpu_{gpu}/{name}", value, device_option=device)

    def save(self, checkpoint_path_prefix: str, current_step: int) -> str:
        """Save the parameters; return the path, `<prefix>-<step>`, which a file `checkpoint` beside it names too.

        Raises:
            DBError, FileError: something cannot be written.
        """
        path = f"{checkpoint_path_prefix}-{current_step}"
        kept = self.model.GetAllParams()
        save = core.CreateOperator("Save", kept, [], absolute_path=True, db=path, db_type="minidb")
        assert workspace.RunOperatorOnce(save)
        text = f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n'
        write_bytes_atomically(os.path.join(os.path.dirname(checkpoint_path_prefix), "checkpoint"), text.encode())
        logger.info("Saved checkpoint file to %s", path)
        return path


def gen_batches(
    source_corpus: Any,
    target_corpus: Any,
    source_vocab: Mapping[str, int],
    target_vocab: Mapping[str, int],
    batch_size: int,
    max_length: int | None,
) -> list[list[Any]]:
    """Return batches of pairs of numbered sentences, out of order; pairs in a batch are of like length.

    Raises:
        FileError, FormatError: a file cannot be read, or is no text.
        ArgumentError: `batch_size` is below 1.
    """
    pairs = sentences.pairs_of(source_corpus, target_corpus, (source_vocab, target_vocab), max_length)
    return sentences.batches_of(pairs, batch_size, random.shuffle)


def run_seq2seq_model(args: Any, model_params: Mapping[str, Any] | None = None) -> None:
    """Train a model on two corpora, and tell its loss on two others after each epoch.

    Args:
        args: what `main` reads; `checkpoint` is a prefix for what is saved after each epoch, or None.
        model_params: those of `Seq2SeqModelCaffe2`.
    """
    assert model_params is not None, "a model is made from model_params"
    source_vocab = seq2seq_util.gen_vocab(args.source_corpus, args.unk_threshold)
    target_vocab = seq2seq_util.gen_vocab(args.target_corpus, args.unk_threshold)
    logger.info("Source vocab size %d", len(source_vocab))
    logger.info("Target vocab size %d", len(target_vocab))
    size = model_params["batch_size"]
    batches: list[list[list[Any]]] = []
    for what, suffix in (("training", ""), ("eval", "_eval")):
        source, target = (getattr(args, f"{side}_corpus{suffix}") for side in ("source", "target"))
        batches.append(gen_batches(source, target, source_vocab, target_vocab, size, args.max_length))
        logger.info("Number of %s batches %d", what, len(batches[-1]))
    trained, told = batches
    made = Seq2SeqModelCaffe2(model_params, len(source_vocab), len(target_vocab), num_gpus=args.num_gpus)
    with made as model:
        model.initialize_from_scratch()
        for epoch in range(args.epochs):
            logger.info("Epoch %d", epoch)
            loss = sum(float(model.step(batch, forward_only=False)) for batch in trained)
            logger.info("\ttraining loss %s", loss)
            loss = sum(float(model.step(batch, forward_only=True)) for batch in told)
            logger.info("\teval loss %s", loss)
            if args.checkpoint is not None:
                model.save(args.checkpoint, epoch)


def main() -> None:
    """Train a model as arguments of the command line say."""
    random.seed(31415)
    parser = argparse.ArgumentParser(description="Caffe2: Seq2Seq Training")
    add_corpora(parser)
    parser.add_argument("--max-length", type=int, default=None, help="most words of a sentence that counts")
    parser.add_argument("--batch-size", type=int, default=32, help="pairs of a batch")
    parser.add_argument("--epochs", type=int, default=10, help="rounds through the training corpora")
    parser.add_argument("--learning-rate", type=float, default=0.5, help="rate of plain descent")
    parser.add_argument("--max-gradient-norm", type=float, default=1.0, help="gradients are scaled to no more")
    parser.add_argument("--num-gpus", type=int, default=0, help="0 to train on the CPU")
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}-corpus-eval", type=str, required=True, help=f"{side} sentences to tell the loss of"
        )
    add_extents(parser)
    parser.add_argument("--checkpoint", type=str, default=None, help="prefix of what is saved after each epoch")
    args = parser.parse_args()
    params = {
        **encoder_decoder_params(args),
        "batch_size": args.batch_size,
        "optimizer_params": {"learning_rate": args.learning_rate},
        "max_gradient_norm": args.max_gradient_norm,
    }
    run_seq2seq_model(args, model_params=params)


if __name__ == "__main__":
    main()
