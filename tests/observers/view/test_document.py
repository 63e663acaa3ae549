"""The document: stages, what passes make and take away, facts, memory and time."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tazza.cli.profile import Request
from tazza.cli.view import Measuring, subject_of
from tazza.graph.text import parse_net
from tazza.observers.view import Subject, document_of
from tazza.observers.view.geometry import TIMES
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import DataType, TensorSpec

NET = """
net: small
in: x, W, b, V
out: y
a = Conv(x, W, b; kernel=3)
a = Relu(a)
t = Tanh(a)
s = Relu(a)
y = Sum(a, s)
"""


def stage(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in document["stages"] if each["name"] == name)


def types(stage: dict[str, Any]) -> list[str]:
    return [facts["t"] for facts in stage["ops"]]


def test_a_net_alone_is_drawn_with_what_its_schemas_tell() -> None:
    net = parse_net(NET)
    specs = {
        name: TensorSpec(dims, DataType.FLOAT) for name, dims in (("x", (2, 3, 7, 5)), ("W", (4, 3, 3, 3)), ("b", (4,)))
    }
    document = document_of(Subject(net, specs, {name: specs[name] for name in "Wb"}))
    conv = document["stages"][0]["ops"][0]
    assert (conv["t"], conv["f"], conv["p"]) == ("Conv", "nn.conv", 4 * 27 + 4)
    assert conv["i"] == [
        ["x", f"float32 2 {TIMES} 3 {TIMES} 7 {TIMES} 5", "X", 0],
        ["W", f"float32 4 {TIMES} 3 {TIMES} 3 {TIMES} 3", "W", 1],
        ["b", "float32 4", "b", 1],
    ]
    assert conv["o"] == [["a", f"float32 2 {TIMES} 4 {TIMES} 5 {TIMES} 3", "Y"]]
    assert conv["c"] > 2 * 2 * 4 * 5 * 3 * 27 - 1
    assert conv["a"] == [["kernel", "3"]]
    assert document["arena"] is None
    assert document["timelines"] == []
    json.dumps(document, allow_nan=False)


def test_passes_tell_what_they_made_and_took_away() -> None:
    document = document_of(Subject(parse_net(NET)))
    passed = {one["name"]: one for one in document["passes"]}
    assert passed["dead_code"]["count"] == 1
    assert passed["dead_code"]["ops"] == 4
    assert passed["common_subexpression"]["count"] == 0
    written, dead = document["stages"][0], stage(document, "dead_code")
    assert types(written) == ["Conv", "Relu", "Tanh", "Relu", "Sum"]
    assert [facts["t"] for facts in written["ops"] if facts["y"] & 2] == ["Tanh"]
    fused = stage(document, "fuse_epilogue")
    assert "Tanh" not in types(dead)
    made = next(facts for facts in fused["ops"] if facts["y"] & 1)
    assert made["u"][0] == "Conv 'a'"


def test_a_net_that_is_not_legal_is_drawn_all_the_same() -> None:
    net = NetDef(name="odd", op=[OperatorDef(type="NobodyKnows", input=["x"], output=["y"])])
    net.op.append(OperatorDef(type="Relu", input=["y", "y"], output=["z"]))
    document = document_of(Subject(net))
    assert types(document["stages"][0]) == ["NobodyKnows", "Relu"]
    assert any("NobodyKnows" in note or "Relu" in note for note in document["notes"])


@pytest.mark.slow
def test_a_run_tells_engines_times_memory_and_lanes() -> None:
    document = document_of(subject_of(Request("lenet"), Measuring(2, 2)))
    assert document["name"] == "lenet"
    last = stage(document, "as it runs")
    for facts in last["ops"]:
        assert facts["s"] > 0
        assert facts["r"] == 2
        assert facts["e"] in document["engines"]
    conv = last["ops"][0]
    assert [choice[0] for choice in conv["q"] if not choice[1]] == [conv["e"]], (
        "one engine was taken, others say why not"
    )
    assert len(conv["q"]) > 2
    _check_arena(document["arena"], len(last["ops"]))
    beside, plan = document["timelines"]
    assert (beside["type"], beside["stage"], plan["type"]) == ("async_scheduling", 0, "plan")
    assert {span[0] for spans in beside["lanes"].values() for span in spans} == set(range(8)), "each operator ran"


def _check_arena(arena: dict[str, Any], steps: int) -> None:
    """What lies at one place lies there at different times."""
    assert arena["steps"] == steps
    assert 0 < arena["bytes"] < arena["unshared"]
    held = np.zeros((steps, arena["bytes"]), bool)
    for _, offset, nbytes, first, last in arena["places"]:
        assert 0 <= first <= last < steps
        part = held[first : last + 1, offset : offset + nbytes]
        assert not part.any()
        part[:] = True
