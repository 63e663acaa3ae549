"""Random nets with branches, loops and scopes inside give what `simple` gives, by every net type; so does NumPy."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tazza.nets import NETS, SimpleNet
from tazza.nets.plan.rewrite import survivors_of
from tazza.nets.simple_refcount import last_readers
from tazza.operator import touched_by
from tazza.proto import NetDef
from tazza.tensor import Tensor
from tazza.workspace import Workspace
from tests.nets.nested import SHAPE, VALUES, Array, Drawing, evaluate, fed, feed

TYPES = sorted(name for name in NETS if NETS[name] is not SimpleNet)
FEW, MANY = 10, 40
RUNS = 2


@cache
def drawn(seed: int) -> NetDef:
    return Drawing(seed).net()


def results(seed: int, kind: str, *, shared: bool = False) -> dict[str, Array]:
    """Return the tensors that a net leaves after some runs; `shared`: where two pairs of blobs are one memory."""
    home = Workspace()
    feed(home)
    if shared:
        home.blob("b").tensor().share(home.blob("a").tensor())
    net = NetDef()
    net.CopyFrom(drawn(seed))
    net.type, net.num_workers = kind, 2
    if shared:  # nobody empties what lies there
        net.external_output.extend(name for name in VALUES if name in touched_by(net).writes)
    made = home.create_net(net)
    for _ in range(RUNS):
        made.run()
        if shared:  # from the second run on another pair as well, and by a view
            home.blob("e").set(home.blob("d").tensor().view(SHAPE))
    home.delete_net(net.name)
    return {name: home.fetch(name) for name in home.blob_names() if is_there(home, name)}


def is_there(home: Workspace, name: str) -> bool:
    """Whether a blob holds a tensor with numbers."""
    value = home.blob(name).value
    return isinstance(value, Tensor) and value.allocated


@cache
def simple_results(seed: int, *, shared: bool = False) -> dict[str, Array]:
    return results(seed, "simple", shared=shared)


def check(seed: int, kind: str, *, shared: bool = False) -> None:
    """Assert that a net gives what it gives as `simple`."""
    expected, found = simple_results(seed, shared=shared), results(seed, kind, shared=shared)
    if kind == "plan":
        kept = set(VALUES) if shared else survivors_of(drawn(seed)) & expected.keys()
        assert kept <= found.keys()
        for name in kept:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=name)
        return
    gone = (
        set(last_readers(drawn(seed))) - (set(VALUES) if shared else set()) if kind == "simple_refcount" else set[str]()
    )
    assert found.keys() - gone == expected.keys() - gone
    for name, array in found.items():
        assert array.tobytes() == expected[name].tobytes(), f"{name}: other bits"


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shared", [False, True])
def test_every_net_type_gives_what_simple_gives(kind: str, shared: bool, soak: int) -> None:
    """Hundreds of nets of each type with `--soak`."""
    for seed in range(MANY * soak):
        try:
            check(seed, kind, shared=shared)
        except BaseException as error:
            error.add_note(f"with seed {seed}")
            raise


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, pytest.param(FEW, marks=pytest.mark.slow)])
def test_simple_gives_what_numpy_gives(first: int, soak: int) -> None:
    for seed in range(first, MANY * soak) if first else range(FEW):
        values = {
            name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in fed().items()
        }
        for _ in range(RUNS):
            evaluate(drawn(seed), values)
        found = simple_results(seed)
        for name in VALUES:
            np.testing.assert_allclose(found[name], values[name], rtol=1e-4, atol=1e-5, err_msg=f"{name}, seed {seed}")
