"""Nets whose blobs share names give the bits of those they were made of, by every net type, and run as parallel.

Of random nets plans are compared to rounding; `tests/caffe2/test_memonger.py` holds those of models to the last bit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import TazzaError
from tazza.graph.dependency import Access, dependencies
from tazza.graph.recycling import Recycled, behind, kept_by_name, recycle
from tazza.graph.text import parse_net, print_operator
from tazza.nets import NETS
from tazza.operator import make_argument, operator_def, touches
from tazza.proto import NetDef
from tazza.tensor import Tensor
from tazza.workspace import Workspace
from tests.nets.nested import VALUES, Drawing, feed
from tests.nets.test_net_types import RECORDED_CASES, STORED, Case

MANY = 40
RUNS = 2


def results(net: NetDef, kind: str, fill: Callable[[Workspace], object]) -> dict[str, NDArray[Any]]:
    """Return the tensors that a net leaves as one of a type."""
    home = Workspace()
    fill(home)
    made = NetDef()
    made.CopyFrom(net)
    made.name, made.type, made.num_workers = "n", kind, 2
    home.create_net(made)
    home.run_net("n", RUNS)
    home.delete_net("n")
    return {name: home.fetch(name) for name in home.blob_names() if _is_there(home, name)}


def _is_there(home: Workspace, name: str) -> bool:
    value = home.blob(name).value
    return isinstance(value, Tensor) and value.allocated


def lost(made: Recycled, net: NetDef) -> set[str]:
    """Return the blobs that hold something else after a run, or are no longer there: all whose memory went on."""
    last = {name: position for position, op in enumerate(made.net.op) for name in touches(op).writes}
    own = {name: position for position, op in enumerate(net.op) for name in touches(op).writes}
    taken = {name for name in made.names.values() if name in own and last[name] != own[name]}
    return {*made.names, *taken}


def check(net: NetDef, made: Recycled, fill: Callable[[Workspace], object], kinds: Sequence[str]) -> None:
    """Assert that all blobs whose memory did not go on are the same, to the last bit; as `plan` to rounding.

    What a plan fuses hangs on which names are fixed.
    """
    for kind in kinds:
        expected, found = results(net, kind, fill), results(made.net, kind, fill)
        for name in expected.keys() - lost(made, net):
            if kind == "plan" and name not in found:
                assert name not in net.external_output
                continue
            if kind == "plan":
                np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
                continue
            assert found[name].tobytes() == expected[name].tobytes(), f"{name} as {kind}: other bits"


def reached(net: NetDef) -> list[set[int]]:
    """Return for each operator all that have to end before it begins."""
    found: list[set[int]] = []
    accesses = [Access((*one.reads, *one.after), one.writes) for one in map(touches, net.op)]
    for parents in dependencies(accesses).parents:
        found.append({*parents}.union(*(found[parent] for parent in parents)))
    return found


def some(net: NetDef, seed: int) -> tuple[set[str], set[str], dict[str, int] | None]:
    """Draw blobs that may get names, hosts, and sizes or none."""
    draw = random.Random(seed)
    made = sorted({name for op in net.op for name in touches(op).writes})
    blobs = set(draw.sample(made, draw.randint(len(made) // 2, len(made))))
    hosts = set(draw.sample(made, draw.randint(0, len(made) // 2))) if seed % 3 == 0 else set[str]()
    return blobs, hosts, {name: draw.choice([1, 4, 9]) for name in made} if seed % 2 else None


def with_passing_values(seed: int) -> NetDef:
    """Return a random net with nets inside; between its operators stand some whose results nobody needs for long."""
    drawn, draw = Drawing(seed).net(), random.Random(seed)
    net = NetDef(name="n")
    for number, op in enumerate(drawn.op):
        blob = draw.choice(VALUES)
        net.op.append(op)
        net.op.append(operator_def("Relu", [blob], [f"p{number}"]))
        net.op.append(operator_def("Tanh", [f"p{number}"], [f"q{number}"]))
        net.op.append(operator_def("Sum", [draw.choice(VALUES), f"q{number}"], [f"r{number}"]))
        net.op.append(operator_def("Copy", [f"r{number}"], [blob]))
    return net


@pytest.mark.slow
@pytest.mark.parametrize("in_order", [False, True])
def test_random_nets_with_nets_inside(in_order: bool) -> None:
    shared = 0
    for seed in range(MANY):
        net = with_passing_values(seed)
        blobs, hosts, sizes = some(net, seed)
        made = recycle(net, blobs, hosts=hosts, sizes=sizes, in_order=in_order)
        shared += len(made.names)
        kinds = ["simple"] if in_order else sorted(NETS) if seed % 10 == 0 else ["simple", "dag"]
        try:
            check(net, made, feed, kinds)
            assert in_order or reached(made.net) == reached(net)
        except BaseException as error:
            error.add_note(f"with seed {seed}")
            raise
    assert shared >= MANY


def cases(names: Sequence[str]) -> list[tuple[str, Case]]:
    return [(name, STORED[name] if name in STORED else RECORDED_CASES[name]) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        [*list(RECORDED_CASES)[::20], "small"],
        pytest.param([*RECORDED_CASES, *STORED], marks=pytest.mark.slow),
    ],
    ids=["some", "all"],
)
def test_recorded_nets_with_gradients(names: list[str]) -> None:
    """Random nets with shared, overwritten and summed blobs, and nets that Caffe2 wrote."""
    for seed, (name, case) in enumerate(cases(names)):
        blobs, hosts, sizes = some(case.net, seed)
        for in_order in (False, True):
            made = recycle(case.net, blobs, hosts=hosts, sizes=sizes, in_order=in_order)
            try:
                check(case.net, made, case.feed, ["simple"] if in_order else ["simple", "dag", "parallel", "plan"])
                assert in_order or reached(made.net) == reached(case.net)
            except BaseException as error:
                error.add_note(f"in net {name}")
                raise


# -- nets as text ------------------------------------------------------------------------------------------------------


def after(*lines: str, blobs: str | None = None, hosts: str = "", in_order: bool = False) -> list[str]:
    """Return the operators of a net whose blobs share names: all that it makes, unless they are said."""
    net = parse_net(*lines)
    wanted = {name for op in net.op for name in op.output} if blobs is None else blobs.split()
    made = recycle(net, wanted, hosts=hosts.split(), in_order=in_order)
    return [print_operator(op) for op in made.net.op]


def test_a_chain_needs_two_names() -> None:
    assert after("in: x", "out: e", "a = Relu(x)", "b = Relu(a)", "c = Relu(b)", "d = Relu(c)", "e = Relu(d)") == [
        "e = Relu(x)",
        "__m0_shared = Relu(e)",
        "e = Relu(__m0_shared)",
        "__m0_shared = Relu(e)",
        "e = Relu(__m0_shared)",
    ]


def test_branches_do_not_wait_for_each_other() -> None:
    """`b` has ended before `c` begins, but nothing says so; in a net that keeps its order something does."""
    lines = ("in: x", "out: s", "a = Relu(x)", "b = Relu(a)", "c = Relu(x)", "d = Relu(c)", "s = Sum(b, d)")
    assert after(*lines, blobs="a b c d")[2:4] == ["c = Relu(x)", "d = Relu(c)"]
    assert after(*lines, blobs="a b c d", in_order=True)[2:4] == ["__m0_shared = Relu(x)", "d = Relu(__m0_shared)"]


def test_outputs_come_last_under_their_names() -> None:
    """Behind `b` nobody may come; `e`, which nobody reads, comes last where `a` and `c` were."""
    lines = ("in: x", "out: b", "a = Relu(x)", "b = Relu(a)", "c = Relu(b)", "d = Relu(c)", "e = Relu(d)")
    assert after(*lines) == ["e = Relu(x)", "b = Relu(e)", "e = Relu(b)", "d = Relu(e)", "e = Relu(d)"]


CHAIN = ("c = Relu(b)", "d = Relu(c)", "e = Relu(d)")


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        pytest.param(("a = Relu(a)", "b = Relu(a)", *CHAIN, "a = Relu(e)"), "a", id="read before it is written"),
        pytest.param(("a = Relu(x)", "b = Alias(a)", *CHAIN), "a b", id="one memory elsewhere"),
        pytest.param(("a = Relu(x)", "b = Relu(a) @cuda:0", *CHAIN), "a b", id="several devices"),
        pytest.param(("a = Relu(x)", "b = CreateCounter()", "r = CountUp(b)", "c = Relu(a)"), "b", id="no tensor"),
        pytest.param(("a = Relu(x)", "b = Relu(a)", *CHAIN, "b = Iter(b)"), "b", id="kept for the next run"),
    ],
)
def test_what_keeps_out(lines: tuple[str, ...], kept: str) -> None:
    net = parse_net("in: x", *lines)
    made = recycle(net, {name for op in net.op for name in op.output})
    assert {*made.names, *made.names.values()}.isdisjoint(kept.split())


@pytest.mark.parametrize("line", ["Save(b; db='d', db_type='minidb')", "Print(b; to_file=1)"])
def test_what_the_world_knows_by_name_keeps_its_name(line: str) -> None:
    """A key of a database, the name of a file: others may come behind it all the same."""
    net = parse_net("in: x", "a = Relu(x)", "b = Relu(a)", line, *CHAIN)
    names = recycle(net, {"a", "b", "c", "d", "e"}).names
    assert "b" not in names
    assert names


def test_what_the_net_names_in_an_argument_keeps_out() -> None:
    net = parse_net("in: x", "a = Relu(x)", "b = Relu(a)", *CHAIN)
    net.arg.append(make_argument("keep", ["b", "c"]))
    names = recycle(net, {"a", "b", "c", "d", "e"}).names
    assert {*names, *names.values()}.isdisjoint({"b", "c"})


def test_two_blobs_are_too_few() -> None:
    net = parse_net("in: x", "a = Relu(x)", "b = Relu(a)")
    assert recycle(net, {"a", "b"}) == Recycled(net, {})


def test_names_that_are_there_are_passed_over() -> None:
    lines = ("in: x, __m0_shared", "out: y", "a = Sum(x, __m0_shared)", "b = Relu(a)", "c = Relu(b)", "y = Relu(c)")
    assert "__m1_shared" in after(*lines, blobs="a b c")[0]


def test_hosts_lend_their_memory_and_keep_their_names() -> None:
    lines = ("in: x", "out: d", "a = Relu(x)", "b = Relu(a)", "c = Relu(b)", "d = Relu(c)")
    assert after(*lines, blobs="c", hosts="a") == ["a = Relu(x)", "b = Relu(a)", "a = Relu(b)", "d = Relu(a)"]


def test_the_net_that_is_given_stays() -> None:
    net = parse_net("in: x", "a = Relu(x)", "b = Relu(a)", "c = Relu(b)", "d = Relu(c)")
    before = net.SerializeToString()
    made = recycle(net, {"a", "b", "c", "d"})
    assert net.SerializeToString() == before
    assert list(made.net.external_output) == ["d"]


def test_an_illegal_operator_is_named() -> None:
    with pytest.raises(TazzaError, match="IndexFreeze"):
        recycle(parse_net("B = IndexFreeze(A)", "C = Sum(B, B)"), {"B"})


def test_what_follows_from_a_blob() -> None:
    net = parse_net("a = Relu(x)", "b = Relu(y)", "c = Relu(b)", "d = Sum(a, c)")
    assert behind(net, ["y"]) == [1, 2, 3]
    assert behind(net, ["nobody"]) == []


def test_what_is_written_again_behind_its_last_reader_is_kept() -> None:
    assert "a" in kept_by_name(parse_net("in: x", "a = Relu(x)", "b = Relu(a)", "a = Relu(b)", "c = Relu(b)"))


def test_what_an_operator_looks_at_before_it_writes_it_keeps_out() -> None:
    """A sum goes on from run to run, in a branch as well."""
    branch = NetDef(op=[operator_def("Accumulate", ["x"], ["s"])])
    net = parse_net("in: x, c", "y = Accumulate(x)", "a = Relu(y)", "b = Relu(a)", "d = Relu(b)", "e = Relu(d)")
    net.op.append(operator_def("If", ["c"], ["s"], then_net=branch, else_net=branch))
    made = recycle(net, {"y", "a", "b", "d", "e", "s"})
    assert made.names
    assert {*made.names, *made.names.values()}.isdisjoint({"y", "s"})

    def fill(home: Workspace) -> None:
        home.feed("x", np.ones(2, np.float32))
        home.feed("c", np.array([True]))

    check(net, made, fill, ["simple", "dag"])
