"""A trained pair of nets with fewer operators: normalizations go into the weights of convolutions.

    python -m caffe2.python.ideep.transform_ideep_net --init_net init.pb --pred_net predict.pb --fuse_bn

Plans do the same by themselves; here it is written to files. Parameters are a dict from names to arrays.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import core, utils, workspace
from tazza.errors import NetError
from tazza.interop.channel_factors import into_weights, normalizing_factors
from tazza.interop.export import parameter_fill
from tazza.operator import find_argument
from tazza.operator.definition import make_argument
from tazza.proto.message import parse, write_message
from tazza.runtime.files import open_descriptor

__all__ = ["argparse", "caffe2_pb2", "copy", "core", "json", "np", "pairwise", "utils", "workspace"]

Net = caffe2_pb2.NetDef
Params = dict[str, Any]
OUTPUT_CHANNELS = {"Conv": 0, "ConvTranspose": 1}
"""Which axis of a weight has those of the output."""
CLOSE = 1e-4
"""How far the outputs of both nets may be from each other, relative and absolute."""


def last_producer(ops: Sequence[Any], blob: str) -> int:
    """Return where among operators a blob is written last.

    Raises:
        ValueError: nowhere.
    """
    found = [at for at, op in enumerate(ops) if blob in op.output]
    if not found:
        raise ValueError(f"no operator writes '{blob}'")
    return found[-1]


def blob_uses(net: Net, blob: str) -> list[int]:
    """Return which operators read a blob."""
    return [at for at, op in enumerate(net.op) if blob in op.input]


def _neighbours(net: Net, first: Iterable[str], second: str) -> Iterator[int]:
    """Yield where an operator of a type reads, first and alone, what the one before it has written."""
    for at, (one, other) in enumerate(pairwise(net.op)):
        if one.type in first and other.type == second and other.input[0] == one.output[0]:
            in_place = other.output[0] == one.output[0]
            if in_place or blob_uses(net, one.output[0]) == [at + 1]:
                yield at


def _copied(net: Net, ops: Sequence[Any]) -> Net:
    made = Net()
    made.CopyFrom(net)
    del made.op[:]
    made.op.extend(ops)
    return made


def fuse_first_bn(net: Net, params: Params, removed_tensors: list[str]) -> tuple[Net, Params, list[str]]:
    """Return the net without the first SpatialBN behind a convolution, the parameters, and the names of those left out.

    One that trains stays, as does one whose input is read elsewhere.
    """
    for at in _neighbours(net, OUTPUT_CHANNELS, "SpatialBN"):
        conv, norm = copy.deepcopy(net.op[at]), net.op[at + 1]
        test = find_argument(norm, "is_test")
        if test is None or not test.i:
            continue
        made, gone = dict(params), list(norm.input[1:5])
        epsilon = find_argument(norm, "epsilon")
        scale, shift, mean, variance = (params[name] for name in gone)
        factor, summand = normalizing_factors(scale, shift, mean, variance, 1e-5 if epsilon is None else epsilon.f)
        fused = _copied(net, [*net.op[:at], conv, *net.op[at + 2 :]])
        conv, weight = fused.op[at], conv.input[1]
        bias = params[conv.input[2]] if len(conv.input) > 2 else None
        if bias is None:
            conv.input.append(f"{weight}_bias")
            fused.external_input.append(f"{weight}_bias")
        axis = OUTPUT_CHANNELS[conv.type]
        made[weight], made[conv.input[2]] = into_weights(params[weight], bias, factor, summand, axis)
        conv.output[0] = norm.output[0]
        read = {name for op in fused.op for name in op.input}
        return fused, {name: made[name] for name in made if name not in gone or name in read}, [*removed_tensors, *gone]
    return net, params, removed_tensors


def fuse_bn(net: Net, params: Params, ignore_failure: bool) -> tuple[Net, Params, list[str]]:
    """Return the net without any SpatialBN behind a convolution, the parameters, and the names of those left out.

    Raises:
        NetError: one is left, unless that is to be ignored.
    """
    net, params = copy.deepcopy(net), dict(params)
    removed: list[str] = []
    count = -1
    while count != len(net.op):
        count = len(net.op)
        net, params, removed = fuse_first_bn(net, params, removed)
    if any(op.type == "SpatialBN" for op in net.op) and not ignore_failure:
        raise NetError(f"net '{net.name}' has a SpatialBN that no convolution is right before")
    return net, params, removed


def fuse_first_mul_add(net: Net, params: Params, removed_tensors: list[str]) -> tuple[Net, Params, list[str]]:
    """Return the net with the first Mul and Add of parameters as one SpatialBN, whose mean is 0 and variance 1."""
    for at in _neighbours(net, ("Mul",), "Add"):
        product, total = net.op[at], net.op[at + 1]
        if product.input[1] not in params or total.input[1] not in params:
            continue
        factor, output = params[product.input[1]], total.output[0]
        names = [f"{output}_mean", f"{output}_var"]
        made = copy.deepcopy(product)
        made.type = "SpatialBN"
        made.input[:] = [product.input[0], product.input[1], total.input[1], *names]
        made.output[0] = output
        made.arg.extend([make_argument("is_test", 1), make_argument("epsilon", 1e-9)])
        fused = _copied(net, [*net.op[:at], made, *net.op[at + 2 :]])
        fused.external_input.extend(names)
        rest = {names[0]: np.zeros_like(factor), names[1]: np.ones_like(factor)}
        return fused, {**params, **rest}, removed_tensors
    return net, params, removed_tensors


def fuse_mul_add(net: Net, params: Params) -> tuple[Net, Params, list[str]]:
    """Return the net with each Mul and Add of parameters as one SpatialBN, for `fuse_bn`."""
    net, params = copy.deepcopy(net), dict(params)
    removed: list[str] = []
    count = -1
    while count != len(net.op):
        count = len(net.op)
        net, params, removed = fuse_first_mul_add(net, params, removed)
    return net, params, removed


def fuse_conv_relu(net: Net) -> Net:
    """Return the net as it is: plans join rectifiers with convolutions by themselves."""
    return net


def add_tensor(net: Net, name: str, blob: Any) -> None:
    """Let a net make a blob with these values."""
    net.op.append(parameter_fill(name, np.asarray(blob)))


def gen_init_net_from_blobs(blobs: Mapping[str, Any]) -> Net:
    """Return a net that makes blobs."""
    made = Net()
    for name, value in blobs.items():
        add_tensor(made, name, value)
    return made


def Optimize(args: argparse.Namespace) -> None:
    """Write `init_net.pb` and `predict_net.pb`, with fewer operators than those of the files that `args` has opened.

    With `verify_input`, which maps names to lists that end in a shape, both pairs are run on random numbers first.

    Raises:
        NetError: a SpatialBN is left, or the numbers are not the same.
        FormatError: a file is no net.
        FileError: a net cannot be written.
    """
    init_net, predict_net = _read(args.init_net), _read(args.pred_net)
    with args.verify_input if args.verify_input else nullcontext() as file:
        shapes = json.load(file) if file else None
    workspace.ResetWorkspace()
    workspace.RunNetOnce(init_net)
    params = {name: workspace.FetchBlob(name) for name in workspace.Blobs()}
    made, changed = predict_net, params
    if args.fuse_mul_add:
        made, changed, _ = fuse_mul_add(made, changed)
    if args.fuse_bn:
        made, changed, _ = fuse_bn(made, changed, False)
    if args.fuse_conv_relu:
        made = fuse_conv_relu(made)
    if shapes is not None:
        _verify(shapes, (predict_net, params), (made, changed))
    for at, op in enumerate(made.op):
        print(f"op[{at}]: {op.type}")
    write_message(Path("predict_net.pb"), made)
    write_message(Path("init_net.pb"), gen_init_net_from_blobs(changed))


def _read(opened: Any) -> Net:
    with opened as file:
        return parse(Net, file.read(), file.name)


def _verify(shapes: Mapping[str, Sequence[Any]], *pairs: tuple[Net, Params]) -> None:
    given = {name: np.random.randn(*shape[-1]).astype(np.float32) for name, shape in shapes.items()}
    results: list[list[Any]] = []
    for net, params in pairs:
        workspace.ResetWorkspace()
        for name, value in {**params, **given}.items():
            workspace.FeedBlob(name, value)
        workspace.RunNetOnce(net)
        results.append([workspace.FetchBlob(name) for name in net.external_output])
    if not all(np.allclose(one, other, CLOSE, CLOSE) for one, other in zip(*results, strict=True)):
        raise NetError("the nets do not give the same numbers")


def _binary(path: str) -> BinaryIO:
    return open(path, "rb", opener=open_descriptor)


def _text(path: str) -> TextIO:
    return open(path, encoding="utf-8", opener=open_descriptor)


def GetArgumentParser() -> argparse.ArgumentParser:
    """Return what reads the options of a run."""
    parser = argparse.ArgumentParser(description="Caffe2 optimization")
    parser.add_argument("--init_net", type=_binary, help="the net that makes the parameters")
    parser.add_argument("--pred_net", type=_binary, help="the net that predicts")
    parser.add_argument("--verify_input", type=_text, help="shapes of inputs to compare both on")
    parser.add_argument("--fuse_bn", default=False, action="store_true")
    parser.add_argument("--fuse_mul_add", default=False, action="store_true")
    parser.add_argument("--fuse_conv_relu", default=False, action="store_true")
    return parser


if __name__ == "__main__":
    Optimize(GetArgumentParser().parse_args())
