"""Translation: a beam search over what one model, or several together, say of the next word.

Letters: B hypotheses, the beam; S steps of the encoder; T of the search; V words.
"""

from __future__ import annotations

import argparse
import logging
import sys
from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from caffe2.python import core, workspace
from caffe2.python.models.seq2seq import seq2seq_util
from caffe2.python.models.seq2seq._arguments import add_corpora, add_extents, encoder_decoder_params
from caffe2.python.models.seq2seq._cells import flat_outputs, lstm_cell
from caffe2.python.models.seq2seq.beam_search import BeamSearchForwardOnly
from caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper
from tazza.errors import ArgumentError
from tazza.models.beams import best_hypothesis

logger = logging.getLogger(__name__)
logger.setLevel(logging.INFO)
logger.addHandler(logging.StreamHandler(sys.stderr))

LENGTH_MAX = 100000
"""Sequences of a decoder's step never end of themselves: it is told that they are so long."""


class Seq2SeqModelCaffe2EnsembleDecoderBase(metaclass=ABCMeta):
    """What decoders have in common: files of models, and rewards of words."""

    decoder_scope_names: list[str]
    model: Any
    models: Sequence[Any]

    @abstractmethod
    def get_model_file(self, model: Any) -> Any:
        """Return where a model is saved."""

    @abstractmethod
    def get_db_type(self) -> str:
        """Return of which type that DB is."""

    def build_word_rewards(self, vocab_size: int, word_reward: float, unk_reward: float) -> Any:
        """Return what is added to the score of a word, float32 (V): nothing for marks but that of unknown words."""
        rewards = np.full(vocab_size, word_reward, np.float32)
        rewards[[seq2seq_util.PAD_ID, seq2seq_util.GO_ID, seq2seq_util.EOS_ID]] = 0
        rewards[seq2seq_util.UNK_ID] = word_reward + unk_reward
        return rewards

    def load_models(self) -> None:
        """Load the parameters of all models, each below its own scope.

        Raises:
            DBError, FileError: a file cannot be read.
            NotFoundError: a parameter is not there.
        """
        kept = self.model.GetAllParams()
        for scope, model in zip(self.decoder_scope_names, self.models, strict=True):
            file = self.get_model_file(model)
            opened = core.CreateOperator("CreateDB", [], ["reader"], db=file, db_type=self.get_db_type())
            assert workspace.RunOperatorOnce(opened)
            own = [param for param in kept if str(param).startswith(f"{scope}/")]
            load = core.CreateOperator(
                "Load", ["reader"], own, load_all=True, add_prefix=f"{scope}/", strip_prefix="gpu_0/"
            )
            assert workspace.RunOperatorOnce(load)
            logger.info("Model %s is loaded from a checkpoint %s", scope, file)


class Seq2SeqModelCaffe2EnsembleDecoder(Seq2SeqModelCaffe2EnsembleDecoderBase):
    """A beam search with the models of an ensemble, whose logarithms of chances are averaged."""

    def get_model_file(self, model: Mapping[str, Any]) -> Any:
        """Return where a model is saved."""
        return model["model_file"]

    def get_db_type(self) -> str:
        """Return of which type that DB is."""
        return "minidb"

    def scope(self, scope_name: str, blob_name: str) -> str:
        """Return a name below a scope."""
        return f"{scope_name}/{blob_name}"

    def __init__(self, translate_params: Mapping[str, Any]) -> None:
        """Build the net in the current workspace.

        Args:
            translate_params: "ensemble_models", for each model its "source_vocab", "target_vocab", "model_params", as
                `Seq2SeqModelCaffe2` takes them, and "model_file"; "decoding_params" with "beam_size", B, "word_reward",
                what is added to the score of each word, and "unk_reward", of an unknown one.
        """
        self.models = translate_params["ensemble_models"]
        decoding_params = translate_params["decoding_params"]
        self.beam_size = decoding_params["beam_size"]
        assert self.models, "an ensemble has a model"
        self.source_vocab_size, self.target_vocab_size = (
            len(self.models[0][f"{side}_vocab"]) for side in ("source", "target")
        )
        for model in self.models:
            for side, size in (("source", self.source_vocab_size), ("target", self.target_vocab_size)):
                assert len(model[f"{side}_vocab"]) == size, f"models of an ensemble have one {side} vocabulary"
        self.decoder_scope_names = [f"model{i}" for i in range(len(self.models))]
        self.model = Seq2SeqModelHelper(init_params=True)
        inputs = self.model.net.AddExternalInputs("encoder_inputs", "encoder_lengths", "max_output_seq_len")
        self.encoder_inputs, self.encoder_lengths, self.max_output_seq_len = inputs
        lengths = self.model.param_init_net.ConstantFill(
            [], ["fake_seq_lengths"], shape=[self.beam_size], value=LENGTH_MAX, dtype=core.DataType.INT32
        )
        search = BeamSearchForwardOnly(
            beam_size=self.beam_size,
            model=self.model,
            go_token_id=seq2seq_util.GO_ID,
            eos_token_id=seq2seq_util.EOS_ID,
        )
        self._build_search(search, lengths)
        logger.info("Params created: ")
        for param in self.model.params:
            logger.info("%s", param)
        workspace.RunNetOnce(self.model.param_init_net)
        rewards = (decoding_params[name] for name in ("word_reward", "unk_reward"))
        workspace.FeedBlob("word_rewards", self.build_word_rewards(self.target_vocab_size, *rewards))
        workspace.CreateNet(self.model.net, input_blobs=list(map(str, inputs)))

    def _build_search(self, search: Any, fake_seq_lengths: Any) -> None:
        """Add a step of each model, what they say together, and the search."""
        step = search.get_step_model()
        states, log_probs, attentions = list[Any](), list[Any](), list[Any]()
        for scope, model in zip(self.decoder_scope_names, self.models, strict=True):
            configs, log_prob, attention = self._build_decoder(
                model=self.model,
                step_model=step,
                model_params=model["model_params"],
                scope=scope,
                previous_tokens=search.get_previous_tokens(),
                timestep=search.get_timestep(),
                fake_seq_lengths=fake_seq_lengths,
            )
            states += configs
            log_probs.append(log_prob)
            attentions.append(attention)
        attention = self._averaged(step, attentions, "num_decoders_with_attention_blob", "attention_weights_average")
        log_prob = self._averaged(step, log_probs, "num_decoders_blob", "output_log_probs_average")
        rewards = self.model.param_init_net.ConstantFill(
            [], ["word_rewards"], shape=[self.target_vocab_size], value=0.0, dtype=core.DataType.FLOAT
        )
        found = search.apply(
            inputs=self.encoder_inputs,
            length=self.max_output_seq_len,
            log_probs=log_prob,
            attentions=attention,
            state_configs=states,
            data_dependencies=[],
            word_rewards=rewards,
        )
        self.output_token_beam_list, self.output_prev_index_beam_list = found[:2]
        self.output_score_beam_list, self.output_attention_weights_beam_list = found[2:]

    def _averaged(self, step_model: Any, blobs: Sequence[Any], share_name: str, name: str) -> Any:
        share = self.model.param_init_net.ConstantFill([], share_name, value=1.0 / len(blobs), shape=[1])
        return step_model.net.WeightedSum([part for blob in blobs for part in (blob, share)], name)

    def _build_decoder(
        self,
        model: Any,
        step_model: Any,
        model_params: Mapping[str, Any],
        scope: str,
        previous_tokens: Any,
        timestep: Any,
        fake_seq_lengths: Any,
    ) -> tuple[list[Any], Any, Any]:
        """Add the encoder of a model, and a step of its decoder.

        Returns:
            The configurations of its states, what it says of the next word, (B, V), and what it attends to, (B, S, 1).
        """
        layers = [config["num_units"] for config in model_params["decoder_layer_configs"]]
        encoded, hidden, cells, units = self._encoded(model, model_params, scope)
        with core.NameScope(scope):
            embeddings = seq2seq_util.build_embeddings(
                model, self.target_vocab_size, model_params["decoder_embedding_size"], "decoder_embeddings", False
            )
            attends = model_params["attention"] != "none"
            outputs = self._tiled(model, encoded, "encoder_outputs_tiled") if attends else None
            hidden, cells = self._tiled_all(model, hidden, "hidden"), self._tiled_all(model, cells, "cell")
            initial = seq2seq_util.build_initial_rnn_decoder_states(model, units, layers, hidden, cells, attends)
            words = step_model.net.Gather([embeddings, previous_tokens], "embedded_tokens_t_prev")
        decoder = self._decoder(model_params, outputs, units[-1], scope)
        with core.NameScope(scope):
            names = (f"{name}_prev" for name in decoder.get_state_names())
            before = list(step_model.net.AddScopedExternalInputs(*names))
        decoded, after = decoder.apply(step_model, words, fake_seq_lengths, before, timestep)
        link = BeamSearchForwardOnly.LinkConfig
        states = [
            BeamSearchForwardOnly.StateConfig(first, link(previous, 0, 1), link(blob, 1, 1))
            for first, previous, blob in zip(initial, before, after, strict=True)
        ]
        with core.NameScope(scope):
            log_probs = self._log_probs(step_model, decoded, decoder.get_output_dim(), model_params)
            attended = decoder.get_attention_weights() if attends else self._nothing(step_model)
        return states, log_probs, attended

    def _decoder(self, model_params: Mapping[str, Any], encoder_outputs: Any, encoder_units: int, scope: str) -> Any:
        """Return the cells of a decoder."""
        size = model_params["decoder_embedding_size"]
        layers = [config["num_units"] for config in model_params["decoder_layer_configs"]]
        return seq2seq_util.LSTMWithAttentionDecoder(
            encoder_outputs=encoder_outputs,
            encoder_output_dim=encoder_units,
            encoder_lengths=None,
            vocab_size=self.target_vocab_size,
            attention_type=model_params["attention"],
            embedding_size=size,
            decoder_num_units=layers[-1],
            decoder_cells=[lstm_cell(*given, True) for given in zip([size, *layers], layers, strict=False)],
            name=scope,
        )

    def _encoded(
        self, model: Any, model_params: Mapping[str, Any], scope: str
    ) -> tuple[Any, list[Any], list[Any], list[int]]:
        """Add an encoder; return its outputs, last h and c of each layer, and how many elements these have."""
        size = model_params["encoder_embedding_size"]
        with core.NameScope(scope):
            embeddings = seq2seq_util.build_embeddings(model, self.source_vocab_size, size, "encoder_embeddings", False)
        outputs, _, hidden, cells, units = seq2seq_util.build_embedding_encoder(
            model=model,
            encoder_params=model_params["encoder_type"],
            num_decoder_layers=len(model_params["decoder_layer_configs"]),
            inputs=self.encoder_inputs,
            input_lengths=self.encoder_lengths,
            vocab_size=self.source_vocab_size,
            embeddings=embeddings,
            embedding_size=size,
            use_attention=model_params["attention"] != "none",
            forward_only=True,
            scope=scope,
        )
        return outputs, hidden, cells, units

    def _tiled(self, model: Any, blob: Any, name: str) -> Any:
        """Add what is the same for all hypotheses."""
        return model.net.Tile(blob, name, tiles=self.beam_size, axis=1)

    def _tiled_all(self, model: Any, blobs: Sequence[Any], kind: str) -> list[Any]:
        return [
            None if blob is None else self._tiled(model, blob, f"final_encoder_{kind}_tiled_{i}")
            for i, blob in enumerate(blobs)
        ]

    def _log_probs(self, step_model: Any, decoded: Any, size: int, model_params: Mapping[str, Any]) -> Any:
        """Add the logarithms of chances of all words."""
        logits = seq2seq_util.output_projection(
            model=step_model,
            decoder_outputs=flat_outputs(step_model, decoded, size),
            decoder_output_size=size,
            target_vocab_size=self.target_vocab_size,
            decoder_softmax_size=model_params["decoder_softmax_size"],
        )
        return step_model.net.Log(step_model.net.Softmax(logits, "output_probs"), "output_log_probs")

    def _nothing(self, step_model: Any) -> Any:
        """Add what a decoder without attention attends to: nothing, of each word as much."""
        net = step_model.net
        zeros = net.ConstantFill([self.encoder_inputs], "zero_attention_weights_tmp_1", value=0.0)
        row = net.Transpose(zeros, "zero_attention_weights_tmp_2")
        return net.Tile(row, "zero_attention_weights_tmp", tiles=self.beam_size, axis=0)

    def decode(self, numberized_input: Sequence[int], max_output_seq_len: int) -> tuple[list[Any], list[Any], Any]:
        """Translate a sentence.

        Args:
            numberized_input: the numbers of its words.
            max_output_seq_len: most words of the translation, its end counted.

        Returns:
            The numbers of the words, with the end if it was reached; for each what was attended to, in the order of the
            sentence; and the negated score: what it costs.

        Raises:
            ArgumentError: the sentence has no words.
        """
        words = np.array(numberized_input)
        if not words.size:
            raise ArgumentError("a sentence without words has no translation")
        workspace.FeedBlob(self.encoder_inputs, words[::-1, None].astype(np.int32))
        workspace.FeedBlob(self.encoder_lengths, np.array([len(words)], np.int32))
        workspace.FeedBlob(self.max_output_seq_len, np.array([max_output_seq_len], np.int64))
        workspace.RunNet(self.model.net)
        scores = workspace.FetchBlob(self.output_score_beam_list)[:, :, 0]
        tokens = workspace.FetchBlob(self.output_token_beam_list)[:, :, 0]
        before = workspace.FetchBlob(self.output_prev_index_beam_list)[:, :, 0]
        attentions = workspace.FetchBlob(self.output_attention_weights_beam_list)
        places, score = best_hypothesis(tokens, before, scores, seq2seq_util.EOS_ID)
        attended = [list(reversed(attentions[place])) for place in places]
        return [tokens[place] for place in places], attended, -score


def run_seq2seq_beam_decoder(args: Any, model_params: Mapping[str, Any], decoding_params: Mapping[str, Any]) -> None:
    """Translate the sentences of standard input, line by line, to standard output.

    Args:
        args: what `main` reads.
        model_params: those that the model of `args.checkpoint` was made with.
        decoding_params: "beam_size", "word_reward" and "unk_reward".
    """
    source_vocab = seq2seq_util.gen_vocab(args.source_corpus, args.unk_threshold)
    logger.info("Source vocab size %d", len(source_vocab))
    target_vocab = seq2seq_util.gen_vocab(args.target_corpus, args.unk_threshold)
    logger.info("Target vocab size %d", len(target_vocab))
    words = {number: word for word, number in target_vocab.items()}
    model = {"source_vocab": source_vocab, "target_vocab": target_vocab, "model_params": model_params}
    decoder = Seq2SeqModelCaffe2EnsembleDecoder(
        translate_params={
            "ensemble_models": [{**model, "model_file": args.checkpoint}],
            "decoding_params": decoding_params,
        }
    )
    decoder.load_models()
    for line in sys.stdin:
        numbers = seq2seq_util.get_numberized_sentence(line, source_vocab)
        tokens = decoder.decode(numbers, 2 * len(numbers) + 5)[0] if numbers else []
        print(" ".join(words[token] for token in tokens))


def main() -> None:
    """Translate standard input as arguments of the command line say."""
    parser = argparse.ArgumentParser(description="Caffe2: Seq2Seq Translation")
    add_corpora(parser)
    add_extents(parser)
    parser.add_argument("--beam-size", type=int, default=6, help="hypotheses that are kept")
    parser.add_argument("--word-reward", type=float, default=0.0, help="what is added to the score of each word")
    parser.add_argument("--unk-reward", type=float, default=0.0, help="what is added to the score of an unknown word")
    parser.add_argument("--checkpoint", type=str, required=True, help="path of a saved model")
    args = parser.parse_args()
    params = {name: getattr(args, name) for name in ("beam_size", "word_reward", "unk_reward")}
    run_seq2seq_beam_decoder(args, model_params=encoder_decoder_params(args), decoding_params=params)


if __name__ == "__main__":
    main()
