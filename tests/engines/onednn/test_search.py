"""Ways to ask for a primitive: which one a kernel takes, and which ones a search gets to time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from tazza.engines.onednn import search
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import Unimplemented, unavailable
from tazza.engines.onednn.primitive import PrimitiveDescriptor, describe
from tazza.engines.onednn.search import Requests, searched
from tazza.operator import LaidOut, OpView, Spec, Unsupported, find_schema, kernel_key, operator_def
from tazza.operator.choice import Variant
from tazza.tensor import DataType, TensorSpec, TypeSpec
from tazza.tensor.offer import answered

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

N, K, M = 3, 64, 48
Specs = dict[str, TensorSpec]


def product(any_weights: bool = False) -> PrimitiveDescriptor:
    """Return a product of matrices, its weights as they lie or as oneDNN likes them."""
    weights = Descriptor.any((K, M)) if any_weights else Descriptor.of((K, M))
    return describe("matmul", Descriptor.of((N, K)), weights, None, Descriptor.of((N, M)))


def answer(found: PrimitiveDescriptor) -> LaidOut:
    launch = PrimitiveLaunch(found, {"src": "X", "weights": "W", "dst": "Y"})
    return LaidOut(launch, {"W": found.argument("weights").layout()})


def fails() -> PrimitiveDescriptor:
    raise Unimplemented("oneDNN has no such code")


def implementation(found: LaidOut) -> str:
    assert isinstance(found.launch, PrimitiveLaunch)
    return found.launch.implementation


def test_the_first_fast_way_is_taken() -> None:
    found = Requests({"none": fails, "plain": product, "blocked": lambda: product(True)}, answer).best()
    assert found.layouts == answer(product()).layouts


def test_other_ways_are_for_where_these_find_nothing() -> None:
    other = Requests({"plain": product}, lambda one: LaidOut(answer(one).launch, {}))
    assert Requests({"none": fails}, answer, other).best().layouts == {}
    assert Requests({"plain": product}, answer, other).best().layouts != {}
    with pytest.raises(Unimplemented, match="no such code"):
        Requests({"none": fails}, answer).best()


def test_who_asks_may_choose() -> None:
    def last(ways: Iterable[Callable[[], PrimitiveDescriptor]]) -> PrimitiveDescriptor:
        return list(ways)[-1]()

    ways: dict[str, Callable[[], PrimitiveDescriptor]] = {"plain": product, "blocked": lambda: product(True)}
    assert Requests(ways, answer, first=last).best().layouts == answer(product(True)).layouts


# -- variants ----------------------------------------------------------------------------------------------------------


def variants(ask: Callable[[OpView, Specs], Requests], monkeypatch: pytest.MonkeyPatch, *specs: Spec) -> list[Variant]:
    """Register what asks, for nobody else, and return the variants for these specs of X, W, b and Y."""
    kept: dict[Any, Callable[[OpView, Sequence[Spec], Sequence[Spec]], list[Variant]]] = {}

    class Registry:
        def register(self, key: Any, made: Any, help: str) -> None:
            assert help.endswith(ask.__name__)
            kept[key] = made

    monkeypatch.setattr(search, "VARIANTS", Registry())
    assert searched(find_schema("FC"))(ask) is ask
    (key,) = kept
    assert key == kernel_key("FC", "onednn")
    op = find_schema("FC").view(operator_def("FC", ["X", "W", "b"], ["Y"]))
    return kept[key](op, specs[:3], specs[3:])


SPECS = tuple(TensorSpec(dims, DataType.FLOAT) for dims in ((N, K), (M, K), (M,), (N, M)))


def test_every_code_on_every_layout_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A way that leads to the same code on the same layouts is no other variant; reference code is none at all."""

    def ask(op: OpView, specs: Specs) -> Requests:
        assert list(specs) == ["X", "W", "b", "Y"]
        return Requests({"plain": product, "none": fails, "again": product, "blocked": lambda: product(True)}, answer)

    found = variants(ask, monkeypatch, *SPECS)
    names = [one.name for one in found]
    assert len(set(names)) == len(names)
    assert names[0] == f"plain {product().implementation}", "the best way first"
    assert not any(name.startswith(("none", "again")) for name in names)
    keys = {(implementation(one.answer), *one.answer.layouts.values()) for one in found}
    assert len(keys) == len(found)
    assert not any(" ref" in name for name in names)
    assert [one.name for one in variants(ask, monkeypatch, *SPECS)] == names, "names are the same the next time"


@pytest.mark.parametrize("why", ["refused", "no elements", "no tensor"])
def test_no_choice(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(op: OpView, specs: Specs) -> Requests:
        assert why == "refused", "nobody asks where there is nothing to compute"
        raise Unsupported("not this one")

    X = {"no elements": TensorSpec((0, K), DataType.FLOAT), "no tensor": TypeSpec("Mutex")}.get(why, SPECS[0])
    found = answered(lambda: variants(ask, monkeypatch, X, *SPECS[1:]))
    assert found == [] if why == "no elements" else isinstance(found, Unsupported)
