"""Inputs of which only the number of elements counts (`#S` in patterns): whatever their shape, on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ShapeError
from tazza.nets import create_net
from tazza.operator import SCHEMAS, LocalBlobs, OpSchema, operator_def, run_op
from tazza.operator.pattern import Bindings, match
from tazza.proto import NetDef
from tazza.tensor import Tensor
from tests.check import engines_of

SHAPES = [(12,), (1, 12), (4, 3), (3, 2, 2), (3, 4, 1)]
"""Other shapes of what is (3, 4)."""


def counted(declared: OpSchema) -> list[str]:
    """Return the letters of which only the number of elements counts; variadic ones stand in their family's tests."""
    found = [spec for spec in declared.inputs if spec.dims is not None and spec.dims.startswith("#")]
    return [spec.name for spec in found if not spec.variadic]


TYPES = [type for type in sorted(SCHEMAS.keys()) if counted(SCHEMAS[type])]


def test_there_are_some() -> None:
    assert {"SeluGradient", "SoftmaxGradient", "ClipGradient", "LeakyReluGradient", "SoftplusGradient"} <= set(TYPES)


def problems(declared: OpSchema) -> Iterator[tuple[list[NDArray[Any]], list[NDArray[Any]]]]:
    """Yield inputs of equal shapes, and the same with other shapes where only sizes count."""
    letters = [spec.name for spec in declared.inputs if not spec.optional]
    plain = [np.random.default_rng(i).random((3, 4)).astype(np.float32) for i, _ in enumerate(letters)]
    for shape in SHAPES:
        yield plain, [x.reshape(shape) if n in counted(declared) else x for n, x in zip(letters, plain, strict=True)]


@pytest.mark.parametrize("type", TYPES)
def test_every_engine_gives_what_equal_shapes_give(type: str) -> None:
    for plain, other in problems(SCHEMAS[type]):
        wanted = run_op(type, *plain, engine="reference")
        assert wanted.shape == (3, 4)
        for engine in engines_of(type):
            np.testing.assert_allclose(run_op(type, *other, engine=engine), wanted, rtol=1e-5)
        turned = [np.asfortranarray(x) for x in other]
        np.testing.assert_allclose(run_op(type, *turned), wanted, rtol=1e-5)


@pytest.mark.parametrize("type", TYPES)
def test_nets_of_both_kinds_do_too(type: str) -> None:
    """Also in place, and between operators that a plan would fuse with it."""
    declared = SCHEMAS[type]
    letters = [spec.name for spec in declared.inputs if not spec.optional]
    for plain, other in problems(declared):
        wanted = run_op(type, *plain, engine="reference")
        for kind in ("simple", "plan"):
            blobs = LocalBlobs()
            for letter, value in zip(letters, other, strict=True):
                blobs.create_blob(letter).set(Tensor.from_numpy(value))
            ops = [
                operator_def("Copy" if kind == "simple" else "Negative", [letters[-1]], ["g"]),
                operator_def(type, [*letters[:-1], "g"], ["g" if "dX" in declared.in_place else "dX"]),
                operator_def("Negative", ["g" if "dX" in declared.in_place else "dX"], ["end"]),
            ]
            net = create_net(
                NetDef(name="n", type=kind, op=ops, external_input=letters, external_output=["end"]), blobs
            )
            for _ in range(2):
                net.run()
            net.close()
            sign = -1 if kind == "simple" else 1
            np.testing.assert_allclose(blobs.blobs["end"].tensor().plain(), sign * wanted, rtol=1e-5)


@pytest.mark.parametrize("type", TYPES)
def test_other_sizes_are_refused(type: str) -> None:
    for plain, _ in problems(SCHEMAS[type]):
        letters = [spec.name for spec in SCHEMAS[type].inputs if not spec.optional]
        short = [x.ravel()[:11] if n in counted(SCHEMAS[type]) else x for n, x in zip(letters, plain, strict=True)]
        with pytest.raises(ShapeError, match=r"has 11 elements \(11\), .* has 12 \(3, 4\)"):
            run_op(type, *short)


def test_unknown_extents_fit() -> None:
    bindings = Bindings()
    match("*S", (2, None), "Y", bindings)
    match("#S", (7,), "dY", bindings)
    match("#T", (7,), "dY", bindings)
