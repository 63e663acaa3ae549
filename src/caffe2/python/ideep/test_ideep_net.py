"""How long a net of an old collection takes.

    python -m caffe2.python.ideep.test_ideep_net --model FOLDER --batch_size 1

The folder has `init_net.pb`, `predict_net.pb` and `value_info.json`, which says type and shape of each input.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from tazza.proto.message import read_message
from tazza.runtime.files import read_json

__all__ = ["GetArgumentParser", "argparse", "benchmark", "caffe2_pb2", "core", "np", "time", "workspace"]


def GetArgumentParser() -> argparse.ArgumentParser:
    """Return what reads the options of a run."""
    parser = argparse.ArgumentParser(description="Caffe2 benchmark.")
    parser.add_argument("--batch_size", type=int, default=128, help="images of a batch")
    parser.add_argument("--model", type=str, help="folder of the model")
    parser.add_argument("--order", type=str, default="NCHW", help="order of the axes")
    parser.add_argument("--device", type=str, default="CPU", help="device; any name is the CPU")
    parser.add_argument("--cudnn_ws", type=int, help="bytes that cuDNN may use for itself")
    parser.add_argument("--iterations", type=int, default=10, help="runs that are timed")
    parser.add_argument("--warmup_iterations", type=int, default=10, help="runs before")
    parser.add_argument("--forward_only", action="store_true", help="without gradients, which there are none of")
    parser.add_argument("--layer_wise_benchmark", action="store_true", help="time each operator as well")
    parser.add_argument("--engine", type=str, default="", help="engines that every operator prefers")
    parser.add_argument("--dump_model", action="store_true", help="print the net")
    parser.add_argument("--net_type", type=str, default="simple")
    parser.add_argument("--num_workers", type=int, default=2)
    parser.add_argument("--use-nvtx", default=False, action="store_true")
    parser.add_argument("--htrace_span_log_path", type=str)
    return parser


def benchmark(args: Any) -> None:
    """Run the net of a folder on random numbers; the times are printed.

    Raises:
        FileError, FormatError: a file is missing, or something else.
    """
    print(f"Batch size: {args.batch_size}")
    folder = Path(args.model)
    init_net, net = (read_message(folder / name, caffe2_pb2.NetDef) for name in ("init_net.pb", "predict_net.pb"))
    net.type, net.num_workers = args.net_type, args.num_workers
    for op in net.op if args.engine else ():
        op.engine = args.engine
    if args.dump_model:
        print(net)
    workspace.ResetWorkspace()
    workspace.RunNetOnce(init_net)
    for name, (_, shape) in read_json(folder / "value_info.json", "value_info.json").items():
        workspace.FeedBlob(name, np.random.randn(args.batch_size, *shape[1:]).astype(np.float32))
    workspace.CreateNet(net)
    start = time.time()
    workspace.BenchmarkNet(net.name, args.warmup_iterations, args.iterations, args.layer_wise_benchmark)
    print(f"FPS: {args.batch_size * args.iterations / (time.time() - start):.1f}")


if __name__ == "__main__":
    benchmark(GetArgumentParser().parse_args())
