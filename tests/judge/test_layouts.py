"""A law over all engines: how an operator's inputs lie in memory changes no number, whatever lies how beside what."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from tazza.device import current_context
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.library import unavailable
from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, LocalBlobs, Operator
from tazza.operator.reorder import relayout
from tazza.proto import OperatorDef
from tazza.tensor import ROW_MAJOR, CPUPlace, DataType, Layout, Strided, Tensor, channels_last
from tazza.testing.value import tensor_of
from tests.check import engines_of
from tests.judge.draw import CannotDraw, Problem, draw, drawable
from tests.judge.exact import rounded
from tests.judge.hand import Array
from tests.judge.meaning import steps_of

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

PROBLEMS = 2
"""How many are drawn for each operator; four times as many for images, and where inputs are several."""


def _narrow(dims: Sequence[int], *, last: bool) -> Layout:
    descriptor = (
        Descriptor.channels_last(dims, DataType.BFLOAT16) if last else Descriptor.of(dims, DataType.BFLOAT16, ROW_MAJOR)
    )
    return descriptor.layout(dims, dtype=DataType.FLOAT)


def _permuted(rng: np.random.Generator, array: Array) -> Layout:
    """Return a dense layout with the axes in some order in memory."""
    order = rng.permutation(array.ndim)
    lies = np.empty([array.shape[axis] for axis in order], np.int8).transpose(np.argsort(order))
    return Strided.of(array.shape, lies.strides)


def _lying(rng: np.random.Generator, array: Array) -> Tensor:
    """Return a tensor that lies in some way, with the numbers of the array rounded to bfloat16: any may lie narrow."""
    tensor = Tensor.from_numpy(np.array(array), copy=None)
    if array.dtype != np.float32 or array.size == 0 or array.ndim == 0:
        return tensor
    last = array.ndim > 2 and rng.random() < 0.5
    ways = (ROW_MAJOR, channels_last(array.shape) if last else _permuted(rng, array), _narrow(array.shape, last=last))
    relayout(tensor, ways[int(rng.integers(3))], current_context(CPUPlace()))
    return tensor


def _results(problem: Problem, engine: str, rng: np.random.Generator | None) -> tuple[list[Array], bool]:
    """Return the outputs, and whether one of them lies narrow; inputs lie row-major without `rng`."""
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    definition.engine, definition.device_option.random_seed = engine, 1
    blobs = LocalBlobs()
    for name, value in problem.inputs.items():
        tensor = tensor_of(problem.value(name)) if rng is None or name in problem.meanings else _lying(rng, value)
        blobs.create_blob(name).set(tensor)
    operator = Operator(definition, blobs, strict=True)
    try:
        with np.errstate(all="ignore"):
            operator.run()
        tensors = [blobs.blobs[name].tensor() for name in definition.output]
        return [np.array(one.plain()) for one in tensors], any(one.layout != one.layout.whole for one in tensors)
    finally:
        operator.close()


def check_layouts(type: str, engine: str, problems: int) -> int:
    """Assert that mixed layouts give what row-major inputs give, on the engine; return how many problems there were."""
    count = 0
    for seed in range(problems):
        try:
            problem = draw(type, seed, dtype=DataType.FLOAT)
        except CannotDraw:
            continue
        rng = np.random.default_rng([seed, zlib.crc32(type.encode())])
        for name, array in problem.inputs.items():
            if array.dtype == np.float32 and array.ndim:
                problem.inputs[name] = rounded(array).astype(np.float32)
        try:
            wanted, _ = _results(problem, engine, None)
        except TazzaError:  # labels, probabilities: bfloat16 does not sum up to 1
            continue
        count += 1
        got, narrow = _results(problem, engine, rng)
        for one, other in zip(got, wanted, strict=True):
            assert one.shape == other.shape
            if one.dtype.kind == "f" and one.size:
                size = float(np.abs(other[np.isfinite(other)]).max(initial=1e-6))
                allowed = (2.0**-8 if narrow else 1e-4) * size
                np.testing.assert_allclose(one, other, rtol=0, atol=allowed, err_msg=f"{problem} on {engine}")
            else:
                apart = np.abs(one.astype(np.int64) - other.astype(np.int64)) if one.dtype == np.uint8 else one != other
                assert apart.max(initial=0) <= steps_of(problem.schema), f"{problem} on {engine}"
    return count


@pytest.mark.slow
def test_layouts_of_several() -> None:
    """Operators of as many inputs as one likes."""
    _check("onednn", [type for type in drawable() if any(spec.variadic for spec in SCHEMAS[type].inputs)])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["onednn", "native"])
def test_layouts(engine: str) -> None:
    assert _check(engine, drawable()) > 100


def _check(engine: str, types: Sequence[str]) -> int:
    wrong: list[str] = []
    count = 0
    for type in types:
        if engine in engines_of(type):
            try:
                schema = SCHEMAS[type]
                several = "order" in schema.args or any(spec.variadic for spec in schema.inputs)
                count += check_layouts(type, engine, 4 * PROBLEMS if several else PROBLEMS)
            except (AssertionError, TazzaError) as error:
                wrong.append(f"{type}: {error}")
    assert not wrong, "\n".join(wrong)
    return count
