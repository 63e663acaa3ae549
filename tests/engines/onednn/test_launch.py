"""Primitives as launches: arguments by name, parts of scratch memory, constants, and operands that move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import Generator, current_context
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import ALIGNMENT, Constant, Numbers, Part, PrimitiveLaunch, SequenceLaunch, ZeroLaunch
from tazza.engines.onednn.library import unavailable
from tazza.engines.onednn.primitive import (
    Attributes,
    Binary,
    PrimitiveDescriptor,
    describe,
    post_op,
    scale_argument,
    zero_point_argument,
)
from tazza.operator import CallChain, NativeCall, Operands
from tazza.tensor import Allocation, CPUPlace, DataType, Tensor
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
DIMS = (2, 3, 5, 7)
PLAIN = Descriptor.of(DIMS)
LAST = Descriptor.channels_last(DIMS)


def numbers(*dims: int) -> Array:
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(np.float32)


def tensor(array: Array) -> Tensor:
    return Tensor.from_numpy(array.copy())


def reorder(source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
    return describe("reorder", source, target, attributes=Attributes())


def binary(algorithm: str = "binary_add", attributes: Attributes | None = None) -> PrimitiveDescriptor:
    made = Attributes() if attributes is None else attributes
    return describe("binary", algorithm, PLAIN, PLAIN, PLAIN, attributes=made)


def bound(tensors: Mapping[str, Any], scratch: Allocation | None = None) -> Operands:
    return Operands(tensors, scratch, Generator, current_context(CPUPlace()))  # pyright: ignore[reportArgumentType] -- nothing draws


def test_one_primitive_with_blobs_of_a_variadic_letter() -> None:
    x, y = numbers(*DIMS), numbers(*DIMS) + 1
    result = tensor(np.zeros(DIMS, np.float32))
    launch = PrimitiveLaunch(binary("binary_sub"), {"src_0": ("X", 1), "src_1": ("X", 0), "dst": "Y"})
    call_alone(launch, {"X": (tensor(x), tensor(y)), "Y": result})  # pyright: ignore[reportArgumentType] -- lists of tensors too
    np.testing.assert_array_equal(result.array, y - x)
    assert launch.implementation == launch.primitive.implementation


def test_parts_hold_what_steps_hand_on() -> None:
    """Images turned by one step, turned back by the next: through memory of the larger argument, each part apart."""
    x = numbers(*DIMS)
    result = tensor(np.zeros(DIMS, np.float32))
    there, back, add = reorder(PLAIN, LAST), reorder(LAST, PLAIN), binary()
    turned, plain = Part("turned"), Part("plain")
    steps = (
        PrimitiveLaunch(there, {"src": "X", "dst": turned}),
        PrimitiveLaunch(back, {"src": turned, "dst": plain}),
        PrimitiveLaunch(add, {"src_0": plain, "src_1": turned, "dst": "Y"}),
    )
    launch = SequenceLaunch(steps)
    own = -(-4 * x.size // ALIGNMENT) * ALIGNMENT
    shared = max(-(-one.primitive.scratch_bytes // ALIGNMENT) * ALIGNMENT for one in steps)
    assert launch.scratch_bytes == 2 * own + shared
    call_alone(launch, {"X": tensor(x), "Y": result})
    np.testing.assert_array_equal(result.array, x + x.transpose(0, 2, 3, 1).reshape(DIMS))
    assert launch.implementation == f"{there.implementation} + {back.implementation} + {add.implementation}"


def test_constants_and_numbers() -> None:
    x = numbers(*DIMS)
    result = tensor(np.zeros(DIMS, np.float32))
    made = Attributes(scales=(("src_0", 0),))
    launch = PrimitiveLaunch(
        binary(attributes=made),
        {"src_0": "X", "src_1": Constant(0.75), "dst": "Y", scale_argument("src_0"): Numbers((2.5,))},
    )
    call_alone(launch, {"X": tensor(x), "Y": result})
    np.testing.assert_allclose(result.array, x * 2.5 + 0.75, rtol=1e-6)


def test_zero_points_are_whole_numbers() -> None:
    x = np.arange(30, dtype=np.uint8).reshape(2, 3, 5)
    result = tensor(np.zeros(x.shape, np.float32))
    made = Attributes(zero_points=("src",))
    found = describe("reorder", Descriptor.of(x.shape, DataType.UINT8), Descriptor.of(x.shape), attributes=made)
    number = Numbers((7,), DataType.INT32)
    call_alone(
        PrimitiveLaunch(found, {"src": "X", "dst": "Y", zero_point_argument("src"): number}),
        {"X": tensor(x), "Y": result},
    )
    np.testing.assert_array_equal(result.array, x.astype(np.float32) - 7)


def test_arguments_that_the_primitive_lacks_are_left_out() -> None:
    """So that a kernel may name a workspace or a bias that only some forms have."""
    x = numbers(*DIMS)
    result = tensor(np.zeros(DIMS, np.float32))
    launch = PrimitiveLaunch(reorder(PLAIN, LAST), {"src": "X", "bias": "b", "workspace": Part("w"), "dst": "Y"})
    assert launch.scratch_bytes == 0
    call_alone(launch, {"X": tensor(x), "b": tensor(numbers(3)), "Y": result})
    np.testing.assert_array_equal(result.array.reshape(2, 5, 7, 3), x.transpose(0, 2, 3, 1))


def test_operands_of_post_ops() -> None:
    x, y, s = numbers(*DIMS), numbers(*DIMS) + 1, numbers(*DIMS) * 3
    result = tensor(np.zeros(DIMS, np.float32))
    found = binary(attributes=Attributes((Binary("binary_mul", PLAIN),)))
    arguments = {"src_0": "A", "src_1": "B", post_op(0): ("S", 0), "dst": "Y"}
    tensors: dict[str, Any] = {"A": tensor(x), "B": tensor(y), "S": (tensor(s),), "Y": result}
    call_alone(PrimitiveLaunch(found, arguments), tensors)
    np.testing.assert_allclose(result.array, (x + y) * s, rtol=1e-6)


def test_calls_are_native_and_move_with_their_operands() -> None:
    """What was bound to memory that moves is read from where it moved to, and only that."""
    both, result = tensor(np.stack([numbers(*DIMS), numbers(*DIMS) * 2])), tensor(np.zeros(DIMS, np.float32))
    nbytes = result.nbytes
    call = PrimitiveLaunch(reorder(PLAIN, PLAIN), {"src": "X", "dst": "Y"}).bind(
        bound({"X": both.view(DIMS), "Y": result})
    )
    assert isinstance(call, NativeCall)
    for shift in (0, nbytes, 0):
        assert call.owner.move(both.address, both.address + nbytes, shift) == 1
        call()
        np.testing.assert_array_equal(result.array, both.array[shift // nbytes])
    assert call.owner.move(both.address + nbytes, both.address + 2 * nbytes, 64) == 0


def test_steps_become_one_chain() -> None:
    x, result = tensor(numbers(*DIMS)), tensor(np.zeros(DIMS, np.float32))
    step = PrimitiveLaunch(reorder(PLAIN, PLAIN), {"src": "X", "dst": "Y"})
    call = SequenceLaunch((step, step)).bind(bound({"X": x, "Y": result}))
    assert isinstance(call, CallChain)
    assert all(isinstance(one, NativeCall) for one in call.calls)


@pytest.mark.parametrize("layout", ["plain", "last", "every second"])
def test_zeros_are_written_whatever_the_layout(layout: str) -> None:
    memory = np.full((*DIMS[:-1], 2 * DIMS[-1]), 3, np.float32)
    target = Tensor.from_numpy(memory[..., ::2] if layout == "every second" else memory[..., : DIMS[-1]].copy())
    if layout == "last":
        target = Tensor.from_numpy(memory[..., : DIMS[-1]].transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2))
    other = tensor(np.ones((3, 0), np.float32))
    launch = ZeroLaunch(("Y", "Z"))
    assert launch.scratch_bytes == 0
    call_alone(launch, {"Y": target, "Z": other})
    assert not target.array.any()
    if layout == "every second":
        assert (memory[..., 1::2] == 3).all()
