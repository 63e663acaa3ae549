"""Record runs of nets by the genuine Caffe2 into `tests/data/golden/nets/<case>.npz`.

They are nets with nets inside, and a layer with packed weights.

Needs what `tools/record_golden.py` needs:

    python3.8 tools/record_nested_nets.py [FOLDER]

Keys of a file: `net` the serialized NetDef, with the gradient operators that Caffe2's Python appends for the blobs
named in the text array `targets` (none: no gradient), `forward` how many operators come before these, `in/<blob>` what
was fed, and `out/<blob>` every tensor of the workspace afterwards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from record_golden import FOLDER, as_bytes, caffe2


def main() -> None:
    """Record all cases."""
    folder = (Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER) / "nets"
    folder.mkdir(parents=True, exist_ok=True)
    for build in CASES:
        np.savez_compressed(str(folder / f"{build.__name__}.npz"), **record(build))
        print(build.__name__)


def record(build: Callable[[Any], tuple[dict[str, Any], list[str]]]) -> dict[str, Any]:
    """Return the parts of one case; it is the first that its process knows of, so names have no numbers."""
    core, workspace, _ = caffe2()
    workspace.ResetWorkspace()
    core.Net._net_names_used.clear()
    net: Any = core.Net("outer")
    feeds, targets = build(net)
    forward = len(net.Proto().op)
    if targets:
        net.AddGradientOperators(targets)
    for name, value in feeds.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(net)
    parts: dict[str, Any] = {
        "net": as_bytes(net.Proto()),
        "targets": np.array(targets, "S"),
        "forward": np.array(forward),
    }
    parts.update({f"in/{name}": value for name, value in feeds.items()})
    left = {name: as_fetched(workspace, name) for name in workspace.Blobs()}
    parts.update({f"out/{name}": value for name, value in left.items() if isinstance(value, np.ndarray)})
    return parts


def as_fetched(workspace: Any, name: str) -> Any:
    """Return what a blob holds; None where that is bytes with a scale."""
    try:
        return workspace.FetchBlob(name)
    except TypeError:
        return None


def row(*values: float) -> Any:
    """Return float32 numbers."""
    return np.array(values, np.float32)


def inner(name: str, *ops: tuple[str, list[str], list[str], dict[str, Any]]) -> Any:
    """Return a net of these operators: type, inputs, outputs, arguments."""
    net = caffe2()[0].Net(name)
    for kind, inputs, outputs, arguments in ops:
        getattr(net, kind)(inputs, outputs, **arguments)
    return net


def add_if(net: Any, seen: set[str], then: Any, other: Any = None) -> None:
    """Append an If on the blob `c`, as Caffe2's builder does."""
    util = import_module("caffe2.python.control_ops_util")
    util.add_if_op(net, caffe2()[0].BlobReference("c"), seen, then, other)


FEEDS: dict[str, Any] = {"x": row(1, -0.5, 0.75), "w": row(0.5, 1.5, -1), "c": np.array([True])}


def if_else(net: Any) -> tuple[dict[str, Any], list[str]]:
    """Both branches write y, and read what the other does not."""
    then = inner("then", ("Mul", ["x", "w"], ["t"], {}), ("Tanh", ["t"], ["y"], {}))
    other = inner("other", ("Scale", ["x"], ["y"], {"scale": 3.0}))
    add_if(net, {"x", "w", "c", "y"}, then, other)
    return FEEDS, ["y"]


def if_else_not(net: Any) -> tuple[dict[str, Any], list[str]]:
    """The same where the condition does not hold."""
    feeds, targets = if_else(net)
    return {**feeds, "c": np.array([False])}, targets


def if_alone(net: Any) -> tuple[dict[str, Any], list[str]]:
    """One branch."""
    add_if(net, {"x", "w", "c", "y"}, inner("then", ("Mul", ["x", "w"], ["y"], {})))
    return FEEDS, ["y"]


def if_in_if(net: Any) -> tuple[dict[str, Any], list[str]]:
    """A branch within a branch, and blobs that are local to it."""
    deep = inner("deep", ("Sigmoid", ["t"], ["y"], {}))
    shallow = inner("shallow", ("Scale", ["t"], ["y"], {"scale": -2.0}))
    then = inner("then", ("Mul", ["x", "w"], ["t"], {}))
    add_if(then, {"x", "w", "c", "y", "t"}, deep, shallow)
    other = inner("other", ("Scale", ["x"], ["y"], {"scale": 3.0}))
    add_if(net, {"x", "w", "c", "y"}, then, other)
    return FEEDS, ["y"]


def if_between(net: Any) -> tuple[dict[str, Any], list[str]]:
    """What comes before and behind; x has another reader, so that gradients are added up."""
    net.Tanh(["w"], ["v"])
    then = inner("then", ("Mul", ["x", "v"], ["y"], {}))
    other = inner("other", ("Scale", ["x"], ["y"], {"scale": 3.0}))
    add_if(net, {"x", "v", "c", "y"}, then, other)
    net.Mul(["x", "y"], ["z"])
    return FEEDS, ["z"]


def if_plain(net: Any) -> tuple[dict[str, Any], list[str]]:
    """Branches without scopes, which read what is no input."""
    then = inner("then", ("Mul", ["x", "w"], ["y"], {}))
    other = inner("other", ("Scale", ["w"], ["y"], {"scale": 3.0}))
    net.If(["c"], [], then_net=then.Proto(), else_net=other.Proto())
    return FEEDS, []


def add_while(net: Any, seen: set[str], body: Any, condition: Any) -> None:
    """Append a While on the blob `c`, as Caffe2's builder does."""
    util = import_module("caffe2.python.control_ops_util")
    util.add_while_op(net, caffe2()[0].BlobReference("c"), seen, body, condition)


COUNTS: dict[str, Any] = {"n": np.array([3], np.int64), "one": np.array([1], np.int64), "zero": np.array([0], np.int64)}


def counting(*ops: tuple[str, list[str], list[str], dict[str, Any]]) -> tuple[Any, Any]:
    """Return the body of a loop that runs n times, and its condition."""
    return inner("body", *ops, ("Sub", ["n", "one"], ["n"], {})), inner("condition", ("GT", ["n", "zero"], ["c"], {}))


def while_carried(net: Any) -> tuple[dict[str, Any], list[str]]:
    """Each round hands x to the next."""
    body, condition = counting(("Scale", ["x"], ["t"], {"scale": 0.5}), ("Tanh", ["t"], ["x"], {}))
    add_while(net, {"x", "n", "one", "zero", "c"}, body, condition)
    return {**FEEDS, **COUNTS}, ["x"]


def while_if(net: Any) -> tuple[dict[str, Any], list[str]]:
    """A branch within a round."""
    body = inner("body", ("Scale", ["x"], ["t"], {"scale": 2.0}))
    then = inner("then", ("Tanh", ["t"], ["x"], {}))
    other = inner("other", ("Scale", ["t"], ["x"], {"scale": 3.0}))
    util = import_module("caffe2.python.control_ops_util")
    util.add_if_op(body, caffe2()[0].BlobReference("c2"), {"x", "t", "c2"}, then, other)
    body.Sub(["n", "one"], ["n"])
    add_while(net, {"x", "c2", "n", "one", "zero", "c"}, body, inner("condition", ("GT", ["n", "zero"], ["c"], {})))
    return {**FEEDS, **COUNTS, "c2": np.array([True])}, ["x"]


def while_forward(net: Any) -> tuple[dict[str, Any], list[str]]:
    """No gradient, and the condition false at once."""
    body, condition = counting(("Mul", ["x", "w"], ["x"], {}))
    add_while(net, {"x", "w", "n", "one", "zero", "c"}, body, condition)
    return {**FEEDS, **COUNTS, "n": np.array([0], np.int64)}, []


def do_twice(net: Any) -> tuple[dict[str, Any], list[str]]:
    """Two outputs of a scope whose gradient is one blob."""
    net.CreateScope([], ["s"])
    body = inner("body", ("Scale", ["a"], ["b"], {"scale": 2.0}), ("Tanh", ["a"], ["d"], {}))
    net.Do(["x", "s"], ["y", "z", "s"], net=body.Proto(), inner_blobs=["a", "b", "d"], outer_blobs_idx=[0, 1, 2])
    net.Sum(["y", "z"], ["sum"])
    net.HasScope(["s"], ["left"])
    return FEEDS, ["sum"]


def packed_layer(net: Any) -> tuple[dict[str, Any], list[str]]:
    """A layer of bytes, whose weights are packed in the net: what is packed can only be used."""
    random = np.random.RandomState(3)
    net.Int8Quantize(["x"], "X", Y_scale=0.03, Y_zero_point=120)
    net.Int8FCPackWeight(["W", "b"], ["packed", "units"], in_scale=0.03, engine="DNNLOWP")
    net.Int8FC(["X", "packed", "units"], "Y", Y_scale=0.1, Y_zero_point=110, engine="DNNLOWP")
    net.Int8Dequantize(["Y"], "y")
    shapes = {"x": (3, 7), "W": (5, 7), "b": (5,)}
    return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}, []


CASES = [
    if_else, if_else_not, if_alone, if_in_if, if_between, if_plain, while_carried, while_if, while_forward, do_twice,
    packed_layer,
]  # fmt: skip

if __name__ == "__main__":
    main()
