"""Two blobs over one storage are one to hazards: parallel nets keep their order, plans take none for a constant."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tazza.graph.dependency import accesses_of, dependencies
from tazza.nets import NETS, SimpleNet
from tazza.nets.parallel import ParallelNet
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.tensor import Blob
from tazza.workspace import Workspace

X = np.array([1, 2, 3, 4], np.float32)
OPS = [operator_def("Scale", ["x"], ["y"], scale=10.0), operator_def("Scale", ["v"], ["z"], scale=2.0)]
"""The second one reads what the first one writes, where v lies over y."""

Share = Callable[[Blob, Blob], object]
SHARES: dict[str, Share] = {
    "shared": lambda one, other: one.tensor().share(other.tensor()),
    "a view": lambda one, other: one.set(other.tensor().view((4,))),
    "a part": lambda one, other: one.set(other.tensor().view((2,), offset=2)),
}


def workspace() -> Workspace:
    home = Workspace()
    for name in ("x", "y", "v"):
        home.feed(name, X)
    return home


@pytest.mark.parametrize("share", SHARES)
def test_hazards_go_by_storage(share: str) -> None:
    home = workspace()
    net = home.create_net(NetDef(name="n", op=OPS))
    assert dependencies(accesses_of(net.operators)).parents == ((), ())
    SHARES[share](home.blob("v"), home.blob("y"))
    assert dependencies(accesses_of(net.operators)).parents == ((), (0,))


@pytest.mark.parametrize("kind", sorted(name for name in NETS if issubclass(NETS[name], ParallelNet)))
def test_parallel_nets_look_again_when_memory_is_shared(kind: str) -> None:
    home = workspace()
    net = home.create_net(NetDef(name="n", type=kind, num_workers=2, op=OPS))
    assert isinstance(net, ParallelNet)
    net.run()
    assert [task.parents for task in net._finest] == [0, 0]  # pyright: ignore[reportPrivateUsage] -- nothing else tells
    SHARES["shared"](home.blob("v"), home.blob("y"))
    net.run()
    assert len(net._finest) == 1, "one chain"  # pyright: ignore[reportPrivateUsage]
    assert home.fetch("z").tolist() == [20, 40, 60, 80]
    home.delete_net("n")


@pytest.mark.parametrize("kind", sorted(name for name in NETS if NETS[name] is not SimpleNet))
@pytest.mark.parametrize("share", SHARES)
def test_every_type_sees_what_is_written_under_another_name(kind: str, share: str) -> None:
    home = workspace()
    net = home.create_net(NetDef(name="n", type=kind, num_workers=2, op=OPS, external_output=["y", "z"]))
    for factor in (1, 2, 3):
        if factor == 2:
            SHARES[share](home.blob("v"), home.blob("y"))
        home.feed("x", X * factor)
        net.run()
        seen = X if factor == 1 else (X[2:] if share == "a part" else X) * 10 * factor
        assert home.fetch("z").tolist() == (2 * seen).tolist()
    home.delete_net("n")


def test_what_shares_memory_outlives_what_is_emptied() -> None:
    """In a net that counts readers, y goes after its last one, and v keeps the memory of both."""
    home = workspace()
    SHARES["shared"](home.blob("v"), home.blob("y"))
    ops = [OPS[0], operator_def("Relu", ["y"], ["r"]), OPS[1]]
    net = home.create_net(NetDef(name="n", type="simple_refcount", op=ops, external_output=["r", "z"]))
    net.run()
    assert home.blob("y").is_empty
    assert home.fetch("z").tolist() == [20, 40, 60, 80]


@pytest.mark.parametrize("kind", sorted(name for name in NETS if NETS[name] is not SimpleNet))
def test_a_blob_that_is_written_twice_is_one_memory_both_times(kind: str) -> None:
    """Passes give each value a name of its own; where v lies over y, the first value of y is seen as v as well."""
    home = workspace()
    ops = [*OPS, operator_def("Scale", ["z"], ["y"], scale=3.0), operator_def("Scale", ["v"], ["w"], scale=5.0)]
    net = home.create_net(NetDef(name="n", type=kind, num_workers=2, op=ops, external_output=["y", "z", "w"]))
    SHARES["shared"](home.blob("v"), home.blob("y"))
    for factor in (1, 2, 3):
        home.feed("x", X * factor)
        net.run()
        assert home.fetch("z").tolist() == (20 * X * factor).tolist()
        assert home.fetch("w").tolist() == (300 * X * factor).tolist()
    home.delete_net("n")


def test_an_operator_within_a_plan_goes_on_with_the_blobs_that_its_names_stand_for() -> None:
    """Between its parts a plan has blobs of its own; once memory is shared, all names are those of the workspace."""
    home = workspace()
    home.feed("c", np.array(True))
    branch = NetDef(name="branch", op=[operator_def("Scale", ["t"], ["y"], scale=10.0)])
    ops = [operator_def("Relu", ["x"], ["t"]), operator_def("If", ["c", "t"], ["y"], then_net=branch), OPS[1]]
    net = home.create_net(NetDef(name="n", type="plan", op=ops, external_output=["y", "z"]))
    for factor in (1, 2, 3):
        if factor == 2:
            SHARES["shared"](home.blob("v"), home.blob("y"))
        home.feed("x", X * factor)
        net.run()
        assert home.fetch("y").tolist() == (10 * X * factor).tolist()
        assert home.fetch("z").tolist() == (2 * X if factor == 1 else 20 * X * factor).tolist()
    home.delete_net("n")
