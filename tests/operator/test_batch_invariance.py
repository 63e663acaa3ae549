"""What an operator gives for an image has the same bits in any batch, where that is asked for.

The cases are those of the families' tests, with 17 images made of theirs, and some of the sizes at which libraries
change kernels. Every engine is asked; every kernel that declares `batch_invariant` takes the whole batch here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

from tazza.operator import SCHEMAS, LocalBlobs, Operator, find_schema
from tazza.operator.images import Images
from tazza.operator.schema import Spec
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import Int8Tensor, Tensor, TensorSpec
from tazza.testing.value import changed, spec_of, tensor_of
from tests.check import Array, Case, engines_of
from tests.operator.test_kinds import family_of
from tests.sampled import sampled

IMAGES = 17
BATCHES = (1, 2, 8)
"""The fourth is all of them, which the others are compared with."""
RANDOM = np.random.default_rng(7)


def numbers(*dims: int) -> Array:
    """Return float32 numbers around 0."""
    return RANDOM.standard_normal(dims).astype(np.float32)


LARGE = (
    Case("FC", [numbers(2, 512), numbers(64, 512), numbers(64)], None, id="512 to 64"),
    Case("FC", [numbers(2, 37, 96), numbers(70, 96), numbers(70)], None, {"axis": 2}, id="sequences"),
    Case("FC", [numbers(2, 16, 5, 5), numbers(120, 400), numbers(120)], None, id="of images"),
    Case("MatMul", [numbers(2, 300), numbers(300, 130)], None, id="300 to 130"),
    Case("MatMul", [numbers(2, 300), numbers(130, 300)], None, {"trans_b": 1}, id="transposed"),
    Case("Conv", [numbers(2, 512, 7, 7), numbers(64, 512, 1, 1), numbers(64)], None, {"kernel": 1}, id="512 channels"),
    Case("Conv", [numbers(2, 64, 14, 15), numbers(64, 64, 3, 3)], None, {"kernel": 3, "pad": 1}, id="3x3"),
    Case("Conv", [numbers(2, 32, 9, 8), numbers(32, 1, 3, 3)], None, {"kernel": 3, "group": 32}, id="depthwise"),
    Case("Conv", [numbers(2, 3, 33, 31), numbers(20, 3, 5, 5)], None, {"kernel": 5, "stride": 2}, id="few channels"),
    Case(
        "Conv",
        [numbers(2, 14, 15, 40), numbers(24, 3, 3, 40)],
        None,
        {"kernel": 3, "order": "NHWC"},
        id="channels last",
    ),
    Case("ConvTranspose", [numbers(2, 48, 7, 6), numbers(48, 20, 4, 4)], None, {"kernel": 4, "stride": 2}, id="48"),
    Case("Softmax", [numbers(2, 1001)], None, id="1001 classes"),
    Case("GroupNorm", [numbers(2, 32, 9, 7), numbers(32), numbers(32)], None, {"group": 8}, id="groups"),
    Case("LayerNorm", [numbers(2, 5, 131)], None, {"axis": 1}, id="rows"),
    Case("AveragePool", [numbers(2, 64, 13, 11)], None, {"kernel": 3, "stride": 2}, id="windows"),
    Case("ReduceSum", [numbers(2, 19, 333)], None, {"axes": [1, 2]}, id="sums"),
)


def cases_of(type: str) -> Iterator[Case]:
    """Yield the cases of an operator in the tests of its family, and the large ones."""
    module = importlib.import_module(family_of(SCHEMAS[type]))
    for test in vars(module).values():
        for mark in getattr(test, "pytestmark", ()):
            for parameter in cast("list[Any]", mark.args[1] if mark.name == "parametrize" else []):
                values = getattr(parameter, "values", None)
                if isinstance(values, tuple) and isinstance(values[0], Case) and values[1:] == ("reference",):
                    yield values[0]
    yield from LARGE


def images_of(case: Case) -> Images | None:
    """Return the batch of a case; None where its images do not go their own ways."""
    schema = find_schema(case.type)
    op = schema.view(case.definition())
    inputs = [spec_of(x) if isinstance(x, Int8Tensor) else Tensor.from_numpy(x).spec for x in case.arrays()]
    outputs = schema.infer_specs(op, cast("list[Spec]", inputs)).specs
    if any(not isinstance(spec, TensorSpec) or not spec.shape_known for spec in outputs):
        return None
    return Images.of(op, cast("list[Spec]", inputs), cast("list[Spec]", outputs))


def many(value: Any) -> Any:
    """Return 17 images of those of a value, no two of numbers with a fraction alike."""
    if isinstance(value, Int8Tensor):
        return changed(value, many)
    grown = value[np.arange(IMAGES) % len(value)]
    if grown.dtype.kind != "f":
        return grown
    factors = 1 + np.arange(IMAGES).reshape(-1, *[1] * (grown.ndim - 1)) / 64
    with np.errstate(over="ignore"):
        return (grown * factors).astype(grown.dtype)


def taken(value: Any, images: slice) -> Any:
    """Return some images of a value."""
    return changed(value, lambda data: data[images].copy())


def computed(case: Case, engine: str, inputs: list[Any]) -> tuple[list[bytes], list[int], Operator]:
    """Run a case on an engine if it takes it; return each output as bytes with those of an image."""
    blobs = LocalBlobs()
    definition = case.definition(engine)
    for name, value in zip(definition.input, inputs, strict=True):
        blobs.create_blob(name).set(tensor_of(value))
    operator = Operator(definition, blobs, strict=True, batch_invariant=True)
    with np.errstate(all="ignore"):
        operator.run()
    arrays = [blob.tensor().plain() for blob in operator.outputs]
    found = [array.tobytes() for array in arrays], [array[:1].nbytes for array in arrays], operator
    operator.close()
    return found


def check_case(case: Case, images: Images, engine: str) -> None:
    """Compare each image of every batch with the same in the batch of 17."""
    letters = find_schema(case.type).view(case.definition()).input_letters
    inputs = [many(x) if a in images.letters else x for a, x in zip(letters, case.arrays(), strict=True)]

    def some(part: slice) -> list[Any]:
        return [taken(x, part) if a in images.letters else x for a, x in zip(letters, inputs, strict=True)]

    whole, sizes, operator = computed(case, engine, some(slice(None)))
    for first, count in (*((0, count) for count in BATCHES), (3, 1), (16, 1), (5, 8)):
        got, _, alike = computed(case, engine, some(slice(first, first + count)))
        assert alike.choices[-1].engine == operator.choices[-1].engine, "the engine depends on the batch"
        for letter, y, all_y, size in zip(operator.op.output_letters, got, whole, sizes, strict=True):
            part = all_y[first * size : (first + count) * size] if letter in images.outputs else all_y
            assert y == part, f"{case.type} {case.id} on {operator.choices[-1].engine}: {count} images from {first} on"


BATCHED = sorted(type for type, schema in ((t, SCHEMAS[t]) for t in sorted(SCHEMAS.keys())) if schema.declares_batch)
POINTWISE = sorted(type for type in sorted(SCHEMAS.keys()) if SCHEMAS[type].formulas is not None)


@pytest.mark.slow
@pytest.mark.parametrize("type", sampled(BATCHED, 16))
def test_images_have_the_same_bits_in_any_batch(type: str) -> None:
    cases = [case for case in cases_of(type) if case.type == type]
    found = [(case, images) for case in cases if (images := images_of(case)) is not None]
    declares = any(SCHEMAS[type].batched_inputs(SCHEMAS[type].view(case.definition())) for case in cases)
    assert found or not declares, f"no case of {type} has images that go their own ways"
    # Each case on one thread or on two: cases of an operator are many, and each comes with seven parts of a batch.
    for number, (case, images) in enumerate(found):
        for threads in (1, 2) if len(found) == 1 else (1 + number % 2,):
            with NUM_THREADS.override(threads):
                for engine in engines_of(type):
                    check_case(case, images, engine)


@pytest.mark.slow
@pytest.mark.parametrize("type", sampled(POINTWISE, 64))
def test_pointwise_operators_too(type: str) -> None:
    for case in cases_of(type):
        images = images_of(case) if case.type == type else None
        if images is not None:
            for engine in engines_of(type):
                check_case(case, images, engine)
