"""How long LSTMs of RecurrentNetwork take beside those of one vendor's library for GPUs."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

from caffe2.proto import caffe2_pb2
from caffe2.python import core, lstm_benchmark, workspace

ITERATIONS = 1000
EXTENTS = {"num_layers": [1], "batch_size": [64, 128, 256], "seq_length": [20, 100], "hidden_dim": [40, 100, 400, 800]}


def Compare(args: Any) -> None:
    """Print the seconds of both for several extents, and their ratios; `args` are those of `lstm_benchmark`.

    Raises:
        TazzaError: there is no GPU, or not that library: both are needed.
    """
    found: list[tuple[Any, float, float]] = []
    args.gpu = True
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CUDA, 0)):
        for extents in product(*EXTENTS.values()):
            for name, extent in zip(EXTENTS, extents, strict=True):
                setattr(args, name, extent)
            args.data_size = args.batch_size * args.seq_length * ITERATIONS
            args.iters_to_report = ITERATIONS // 3
            own, cudnn = (_seconds(args, implementation) for implementation in ("own", "cudnn"))
            found.append((copy.copy(args), cudnn, own))
            print(args)
            print(f"t_cudnn / t_own: {cudnn / own}")
    for given, cudnn, own in found:
        print(f"{given}: {_told(cudnn, own)}")
    for given, cudnn, own in found:
        extents = f"hidden_dim: {given.hidden_dim}, seq_lengths: {given.seq_length}, batch_size: {given.batch_size}"
        print(f"{extents}, num_layers: {given.num_layers}: {_told(cudnn, own)}")
    print(f"Ratio average: {sum(cudnn / own for _, cudnn, own in found) / len(found)}")


def _seconds(args: Any, implementation: str) -> float:
    args.implementation = implementation
    took = lstm_benchmark.Benchmark(args)
    workspace.ResetWorkspace()
    return took


def _told(cudnn: float, own: float) -> str:
    return f"cudnn time: {cudnn}, own time: {own}, ratio: {cudnn / own}"


if __name__ == "__main__":
    given, extra = lstm_benchmark.GetArgumentParser().parse_known_args()
    core.GlobalInit(["caffe2", "--caffe2_log_level=0", *extra])
    Compare(given)
