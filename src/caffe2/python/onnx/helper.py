"""Nets run on given inputs in a workspace of their own."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from caffe2.python.functional import namedtupledict
from caffe2.python.onnx.workspace import Workspace
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.files import write_bytes_atomically

log = logging.getLogger(__name__)
Inputs = Mapping[str, Any] | Sequence[Any]


def c2_native_run_op(op_def: OperatorDef, inputs: Inputs) -> tuple[Workspace, Any]:
    """Run an operator; return its workspace, and its outputs by name."""
    ws = Workspace()
    if not isinstance(inputs, Mapping):
        assert len(op_def.input) == len(inputs), f"{len(inputs)} inputs for {len(op_def.input)}"
        inputs = dict(zip(op_def.input, inputs, strict=True))
    for name, value in inputs.items():
        ws.FeedBlob(name, value, op_def.device_option)
    ws.RunOperatorOnce(op_def)
    return ws, namedtupledict("Outputs", op_def.output)(*ws.FetchBlobs(op_def.output))


def c2_native_run_net(
    init_net: NetDef | None, predict_net: NetDef, inputs: Inputs, debug_arg: Any = None
) -> tuple[Workspace, Any]:
    """Run two nets; return their workspace, and the declared outputs by name.

    Inputs in a list are those that the init net did not make, where there are as many, else the first ones.
    """
    ws = Workspace()
    if init_net:
        ws.RunNetOnce(init_net)
    if not isinstance(inputs, Mapping):
        lacking = [name for name in predict_net.external_input if not ws.HasBlob(name)]
        names = lacking if len(lacking) == len(inputs) else list(predict_net.external_input)
        assert len(inputs) <= len(names), f"{len(inputs)} inputs for {len(names)} ({debug_arg})"
        inputs = dict(zip(names, inputs, strict=False))
    for name, value in inputs.items():
        ws.FeedBlob(name, value, predict_net.device_option)
    ws.RunNetOnce(predict_net)
    outputs = predict_net.external_output
    return ws, namedtupledict("Outputs", outputs)(*ws.FetchBlobs(outputs))


def load_caffe2_net(file: str) -> NetDef:
    """Return the net of a file."""
    return NetDef.FromString(Path(file).read_bytes())


def save_caffe2_net(net: NetDef, file: str, output_txt: bool = False) -> None:
    """Write a net to a file, and as text to another one."""
    write_bytes_atomically(file, net.SerializeToString())
    if output_txt:
        write_bytes_atomically(f"{file}txt", str(net).encode())


def benchmark_caffe2_model(
    init_net: NetDef | None,
    predict_net: NetDef,
    warmup_iters: int = 3,
    main_iters: int = 10,
    layer_details: bool = True,
) -> float:
    """Return the milliseconds of a run."""
    ws = Workspace()
    if init_net:
        ws.RunNetOnce(init_net)
    ws.CreateNet(predict_net)
    return ws.BenchmarkNet(predict_net.name, warmup_iters, main_iters, layer_details)[0]


def benchmark_pytorch_model(
    model: Any,
    inputs: Sequence[Any],
    training: bool = False,
    warmup_iters: int = 3,
    main_iters: int = 10,
    verbose: bool = False,
) -> float:
    """Return the milliseconds of a call."""
    del training, verbose
    for _ in range(warmup_iters):
        model(*inputs)
    start = time.time()
    for _ in range(main_iters):
        model(*inputs)
    taken_ms = (time.time() - start) * 1000 / main_iters
    log.info("The PyTorch model takes %s milliseconds", taken_ms)
    return taken_ms
