"""How long LSTMs take: nets that take made-up sequences from a queue, with their gradients.

Letters: T steps of a sequence, N sequences, D elements of an input, H of a state.
"""

from __future__ import annotations

import argparse
import logging
import time
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import core, model_helper, recurrent, rnn_cell, utils, workspace

log = logging.getLogger("lstm_bench")
log.setLevel(logging.DEBUG)

STATIC = ("static", "static_dag")


def generate_data(T: int, shape: list[int], num_labels: int, fixed_shape: bool) -> tuple[Any, Any, list[int]]:
    """Fill a queue with made-up sequences, and one with labels; return them, and how many rows each entry has.

    Args:
        T: how many entries.
        shape: (T, N, D) of an entry.
        num_labels: labels are numbers below N times so many, one for each step.
        fixed_shape: all entries have T steps; else some have fewer.
    """
    log.info("Generating T=%d sequence batches", T)
    made = core.Net("generate_input_init")
    queue, label_queue = (
        made.CreateBlobsQueue([], name, num_blobs=1, capacity=T) for name in ("inputqueue", "labelqueue")
    )
    workspace.RunNetOnce(made)
    filled = core.Net("generate_input")
    filled.EnqueueBlobs([queue, "scratch"], ["scratch"])
    filled.EnqueueBlobs([label_queue, "label_scr"], ["label_scr"])
    counts: list[int] = []
    for entry in range(T):
        if entry % max(10, T // 10) == 0:
            log.info("Generating data %d/%d", entry, T)
        steps = shape[0] if fixed_shape else np.random.randint(1, shape[0] + 1)
        workspace.FeedBlob("scratch", np.random.rand(steps, *shape[1:]).astype(np.float32))
        workspace.FeedBlob("label_scr", np.random.randint(0, num_labels * shape[1], steps).astype(np.int32))
        workspace.RunNetOnce(filled)
        counts.append(steps * shape[1])
    log.info("Finished data generation")
    return queue, label_queue, counts


def create_model(args: Any, queue: Any, label_queue: Any, input_shape: list[int]) -> tuple[Any, Any]:
    """Return a model, and what it puts out; the states of a run are where the next one starts.

    Args:
        args: what `GetArgumentParser` reads.
        queue: of sequences.
        label_queue: of labels.
        input_shape: (T, N, D).

    Raises:
        UnavailableError: `args.implementation` is "cudnn".
    """
    model = model_helper.ModelHelper(name="LSTM_bench")
    lengths, _ = model.net.AddExternalInputs("seq_lengths", "target")
    data = model.net.DequeueBlobs(queue, "input_data")
    labels = model.net.DequeueBlobs(label_queue, "label")
    first = [
        blob
        for i in range(args.num_layers)
        for blob in model.net.AddExternalInputs(f"hidden_init_{i}", f"cell_init_{i}")
    ]
    output, last = _layers(model, args, data, lengths, first, input_shape[0])
    weights = model.net.UniformFill(labels, "weights")
    _, loss = model.net.SoftmaxWithLoss([model.net.Flatten(output), labels, weights], ["softmax", "loss"])
    if not args.forward_only:
        model.AddGradientOperators([loss])
    for blob in first:
        model.net.Copy(last, blob)
        workspace.FeedBlob(blob, np.zeros([1, args.batch_size, args.hidden_dim], np.float32))
    if args.rnn_executor:
        _set_executor(model.net, args)
    return model, output


def _layers(model: Any, args: Any, data: Any, lengths: Any, first: list[Any], steps: int) -> tuple[Any, Any]:
    """Add the layers; return all h, and the last one."""
    if args.implementation == "cudnn":
        cudnn = rnn_cell.cudnn_LSTM(model, data, first, args.input_dim, args.hidden_dim, "cudnnlstm")
        return cudnn[0], cudnn[1]
    assert args.implementation in ("own", *STATIC), f"Unknown implementation {args.implementation}"
    static = args.implementation in STATIC
    assert args.fixed_shape or not static, "Random input length is not static RNN compatible"
    if static:
        log.info("Using static RNN of size %d", steps)
    output, last, _, _ = rnn_cell.LSTM(
        model=model,
        input_blob=data,
        seq_lengths=lengths,
        initial_states=first,
        dim_in=args.input_dim,
        dim_out=[args.hidden_dim] * args.num_layers,
        scope="lstm1",
        memory_optimization=args.memory_optimization,
        forward_only=args.forward_only,
        drop_states=True,
        return_last_layer_only=True,
        static_rnn_unroll_size=steps if static else None,
    )
    if args.implementation == "static_dag":
        model.net.Proto().type = "dag"
    return output, last


def _set_executor(net: Any, args: Any) -> None:
    """Let steps run side by side."""
    for op in net.Proto().op:
        if op.type in ("RecurrentNetwork", "RecurrentNetworkGradient"):
            recurrent.set_rnn_executor_config(
                op, num_threads=args.rnn_executor_num_threads, max_cuda_streams=args.rnn_executor_max_cuda_streams
            )


def Caffe2LSTM(args: Any) -> float:
    """Return how many seconds an LSTM takes for all data but the first entry."""
    count = args.data_size // (args.seq_length * args.batch_size)
    shape = [args.seq_length, args.batch_size, args.input_dim]
    queue, label_queue, counts = generate_data(count, shape, args.hidden_dim, args.fixed_shape)
    workspace.FeedBlob("seq_lengths", np.array([args.seq_length] * args.batch_size, np.int32))
    model, _ = create_model(args, queue, label_queue, shape)
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    log.info("------ Warming up ------")
    workspace.RunNet(model.net.Proto().name)
    log.info("------ Starting benchmark ------")
    start = last = time.perf_counter()
    for done in range(1, count, args.iters_to_report):
        runs = min(args.iters_to_report, count - done)
        workspace.RunNet(model.net.Proto().name, runs)
        now = time.perf_counter()
        per_second = sum(counts[done : done + runs]) / (now - last)
        log.info("Iter: %d / %d. Entries Per Second: %sk.", done, count, per_second // 100 / 10)
        last = now
    took = time.perf_counter() - start
    total = sum(counts[1:]) / took
    log.info(
        "Done. Total EPS excluding 1st iteration: %sk %s",
        total // 100 / 10,
        " (with RNN executor)" if args.rnn_executor else "",
    )
    return took


@utils.debug
def Benchmark(args: Any) -> float:
    """Return how many seconds an LSTM takes, on the device that `args.gpu` says."""
    return Caffe2LSTM(args)


def GetArgumentParser() -> argparse.ArgumentParser:
    """Return what reads the arguments of the command line."""
    parser = argparse.ArgumentParser(description="LSTM benchmark.")
    numbers = {
        "hidden_dim": (800, "elements of a state"),
        "input_dim": (40, "elements of an input"),
        "batch_size": (128, "sequences of an entry"),
        "seq_length": (20, "most steps of a sequence"),
        "data_size": (1000000, "rows of all sequences"),
        "iters_to_report": (20, "runs between two reports"),
        "num_layers": (1, "layers, all of hidden_dim elements"),
        "rnn_executor_num_threads": (None, "threads that run steps"),
        "rnn_executor_max_cuda_streams": (None, "streams of a GPU that run steps"),
    }
    switches = {
        "gpu": "run on a GPU",
        "fixed_shape": "all sequences have as many steps, as 'static' needs it",
        "memory_optimization": "make gates again in the backward pass",
        "forward_only": "no backward pass",
        "rnn_executor": "run steps side by side",
    }
    for name, (value, text) in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=text)
    for name, text in switches.items():
        parser.add_argument(f"--{name}", action="store_true", help=text)
    parser.add_argument("--implementation", type=str, default="own", help="'cudnn', 'own', 'static' or 'static_dag'")
    return parser


if __name__ == "__main__":
    given, extra = GetArgumentParser().parse_known_args()
    core.GlobalInit(["caffe2", "--caffe2_log_level=0", *extra])
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA if given.gpu else caffe2_pb2.CPU, 0)):
        Benchmark(given)
