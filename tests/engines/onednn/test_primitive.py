"""The cache of primitives, threads, launches with scratch memory, and calls from many threads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tazza.device import CPUContext, Generator
from tazza.engines.onednn import primitive
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Constant, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented, unavailable
from tazza.engines.onednn.primitive import (
    Accumulate,
    Attributes,
    Binary,
    Eltwise,
    PrimitiveDescriptor,
    describe,
    first_fast,
    post_op,
)
from tazza.errors import KernelError
from tazza.operator import CallChain, NativeCall, Operands
from tazza.runtime.openmp import openmp_threads
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import Allocation, CPUPlace, DataType, Tensor, allocator_of
from tests.heap import heap_bytes

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


def eltwise(dims: tuple[int, ...] = (3, 5), name: str = "eltwise_relu", **more: Any) -> PrimitiveDescriptor:
    x = Descriptor.of(dims)
    return describe("eltwise_forward", "forward_inference", name, x, x, 1.0, 2.0, **more)


def operands(tensors: Mapping[str, Any], scratch_bytes: int = 0) -> Operands:
    scratch: Allocation | None = allocator_of(CPUPlace()).allocate(scratch_bytes, "test") if scratch_bytes else None
    return Operands(tensors, scratch, Generator, CPUContext())


def tensor(values: Any) -> Tensor:
    return Tensor.from_numpy(np.array(values, np.float32))


def test_equal_requests_share_one_descriptor() -> None:
    first = eltwise()
    assert eltwise() is first
    assert eltwise((5, 3)) is not first
    assert eltwise(attributes=Attributes(post_ops=(Eltwise("eltwise_tanh"),))) is not first
    assert eltwise(threads=2) is not eltwise(threads=1)


def test_oldest_are_dropped() -> None:
    primitive.clear_primitives()
    with primitive.MOST.override(2):
        first, second = eltwise((2,)), eltwise((3,))
        assert eltwise((2,)) is first
        eltwise((4,))
        assert eltwise((2,)) is first
        again = eltwise((3,))
    assert again is not second
    assert again == second
    assert hash(again) == hash(second)


def test_threads_follow_the_size() -> None:
    with NUM_THREADS.override(3):
        assert primitive.threads_for(100, 100) == 1
        assert primitive.threads_for(10**9, 100) == 3
        assert primitive.threads_for(100, 10**9) == 3
        with primitive.SERIAL_US.override(0.0):
            assert primitive.threads_for(100, 100) == 3


def test_making_a_primitive_leaves_the_threads_of_this_thread_alone() -> None:
    former = openmp_threads()
    assert eltwise((7, 2), threads=former + 1).primitive
    assert openmp_threads() == former


def test_what_onednn_cannot_do_is_unimplemented() -> None:
    x = Descriptor.of((2, 3))
    with pytest.raises(Unimplemented, match="no constant dnnl_fpmath_mode_foo"):
        describe("matmul", x, Descriptor.of((3, 5)), None, Descriptor.any((2, 5)), attributes=Attributes(fpmath="foo"))
    with pytest.raises(KernelError, match=r"matmul of .*invalid arguments"):
        describe("matmul", x, Descriptor.of((4, 5)), None, Descriptor.of((2, 5)))


def test_alternatives_end() -> None:
    source, target = Descriptor.channels_last((2, 6, 9, 11)), Descriptor.channels_last((2, 20, 9, 11))
    weights, pair = Descriptor.any((20, 6, 3, 3)), (1, 1)
    found = describe(
        "convolution_forward",
        "forward_inference",
        "convolution_direct",
        *(source, weights, None, target),
        *(pair, (0, 0), pair, pair),
    )
    assert found.primitive
    names = [one.implementation for one in found.alternatives()]
    assert names[0] == found.implementation
    assert len(set(names)) == len(names) > 1


def test_first_fast_prefers_generated_code() -> None:
    dims = (2, 6, 9, 11)
    slow = eltwise(dims)
    reference = list(slow.alternatives())[-1]
    assert reference.is_slow
    assert first_fast([lambda: reference, lambda: slow]) is slow
    with pytest.raises(Unimplemented, match="only its reference code"):
        first_fast([lambda: reference])


def test_call_is_native_and_computes() -> None:
    X, Y = tensor([[-1, 2, -3]]), tensor([[0, 0, 0]])
    call = PrimitiveLaunch(eltwise((1, 3)), {"src": "X", "dst": "Y"}).bind(operands({"X": X, "Y": Y}))
    assert isinstance(call, NativeCall)
    assert call.threads == 1
    call()
    np.testing.assert_array_equal(Y.array, [[-1, 2, -3] * np.array([1, 1, 1])])
    X.array[...] = 4
    call()
    np.testing.assert_array_equal(Y.array, [[4, 4, 4]])


def test_sequence_shares_parts() -> None:
    x = Descriptor.of((2, 3))
    add = describe("binary", "binary_add", x, x, x)
    square = describe("eltwise_forward", "forward_inference", "eltwise_square", x, x, 0.0, 0.0)
    launch = SequenceLaunch(
        (
            PrimitiveLaunch(add, {"src_0": ("X", 0), "src_1": ("X", 1), "dst": Part("sum")}),
            PrimitiveLaunch(square, {"src": Part("sum"), "dst": Part("squared")}),
            PrimitiveLaunch(add, {"src_0": Part("squared"), "src_1": Constant(0.5), "dst": "Y"}),
        )
    )
    first, second, Y = tensor(np.arange(6).reshape(2, 3)), tensor(np.ones((2, 3))), Tensor((2, 3))
    assert launch.scratch_bytes >= 2 * 24
    call = launch.bind(operands({"X": (first, second), "Y": Y}, launch.scratch_bytes))
    assert isinstance(call, CallChain)
    assert len(call.calls) == 3
    call()
    np.testing.assert_allclose(Y.array, (first.array + 1) ** 2 + 0.5)


def test_post_ops() -> None:
    a, b, y = Descriptor.of((2, 3)), Descriptor.of((3, 5)), Descriptor.of((2, 5))
    ops = (Accumulate(2.0), Binary("binary_mul", y), Eltwise("eltwise_linear", 1.0, 3.0))
    found = describe("matmul", a, b, None, y, attributes=Attributes(post_ops=ops))
    random = np.random.default_rng(0)
    A, B, S, Y = (tensor(random.standard_normal(d.dims)) for d in (a, b, y, y))
    expected = (A.array @ B.array + 2 * Y.array) * S.array + 3
    letters = {"src": "A", "weights": "B", "dst": "Y", post_op(1): "S"}
    launch = PrimitiveLaunch(found, letters)
    launch.bind(operands({"A": A, "B": B, "S": S, "Y": Y}, launch.scratch_bytes))()
    np.testing.assert_allclose(Y.array, expected, rtol=1e-5)


def test_one_launch_in_many_threads_gives_the_same_bits() -> None:
    a, b, y = Descriptor.of((32, 48)), Descriptor.of((48, 80)), Descriptor.of((32, 80))
    launch = PrimitiveLaunch(describe("matmul", a, b, None, y, threads=1), {"src": "A", "weights": "B", "dst": "Y"})
    random = np.random.default_rng(0)
    A, B = tensor(random.standard_normal(a.dims)), tensor(random.standard_normal(b.dims))
    results: list[bytes] = []

    def work() -> None:
        Y = Tensor(y.dims)
        call = launch.bind(operands({"A": A, "B": B, "Y": Y}, launch.scratch_bytes))
        for _ in range(5):
            call()
        results.append(Y.array.tobytes())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(results) == 8
    assert len(set(results)) == 1


RELU = Attributes((Eltwise("eltwise_relu"),))
WIDE, NARROW = DataType.FLOAT, DataType.BFLOAT16
FIRST = 10
FREED_KB = 1.0
"""What the heap may grow by for each primitive that was made and destroyed."""


def conv(attributes: Attributes, dtype: DataType = WIDE, kernel: int = 3, channels: int = 16) -> PrimitiveDescriptor:
    """Return a convolution that nobody keeps."""
    x, y = (Descriptor.channels_last((2, count, 20, 30), dtype) for count in (channels, 16))
    W, b = Descriptor.any((16, channels, kernel, kernel), dtype), Descriptor.any((16,), dtype)
    pads = (kernel // 2,) * 2
    numbers = (1, 1), (0, 0), pads, pads
    ask = "convolution_forward", "forward_inference", "convolution_direct"
    return describe(*ask, x, W, b, y, *numbers, attributes=attributes, threads=2, kept=False)


def product(attributes: Attributes) -> PrimitiveDescriptor:
    x, W, y = (Descriptor.of(dims) for dims in ((40, 64), (64, 48), (40, 48)))
    return describe("matmul", x, W, None, y, attributes=attributes, threads=2, kept=False)


REQUESTS = {
    "Conv": lambda: conv(Attributes()),
    "Conv, Add": lambda: conv(Attributes((Accumulate(),))),
    "Conv, Mul": lambda: conv(Attributes((Binary("binary_mul", Descriptor.of((1, 16, 1, 1))),))),
    "Conv, Relu": lambda: conv(RELU),
    "Conv of 1 x 1, Relu": lambda: conv(RELU, kernel=1),
    "Conv of few channels, Relu": lambda: conv(RELU, channels=3),
    "Conv in bfloat16": lambda: conv(Attributes(), NARROW),
    "Conv in bfloat16, Relu": lambda: conv(RELU, NARROW),
    "MatMul, Relu": lambda: product(RELU),
    "Relu": lambda: eltwise(kept=False),
}


def grown_kb(name: str, count: int = 60) -> float:
    """Return what each primitive leaves in the heap, of so many that are made and destroyed."""
    before = 0
    for number in range(count + FIRST):
        if number == FIRST:  # what the first ones make, once for all
            gc.collect()
            before = heap_bytes()
        assert REQUESTS[name]().primitive
    gc.collect()
    return (heap_bytes() - before) / count / 1024


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_which_primitives_are_never_freed(name: str) -> None:
    """By measure: where this fails with a new oneDNN, `never_freed` has to say something else, or can go."""
    assert (grown_kb(name) > FREED_KB) == REQUESTS[name]().never_freed


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_beyond_a_number_of_them_what_is_freed_is_made(name: str) -> None:
    usual = REQUESTS[name]()
    with primitive.UNFREED.override(0):
        taken = REQUESTS[name]()
        assert not taken.never_freed
        assert usual.never_freed or taken.implementation == usual.implementation
        assert taken.is_best
        assert grown_kb(name) < FREED_KB
    assert REQUESTS[name]().implementation == usual.implementation


def test_what_is_never_freed_is_counted_when_it_is_made() -> None:
    before = primitive._unfreed  # pyright: ignore[reportPrivateUsage]
    made = conv(RELU)
    assert primitive._unfreed == before, "a descriptor alone leaves nothing"  # pyright: ignore[reportPrivateUsage]
    _ = made.primitive
    assert primitive._unfreed == before + made.never_freed  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("name", REQUESTS)
def test_what_is_made_steadily_hangs_on_nothing_made_before(name: str) -> None:
    """Whether many primitives that are never freed are there already, or none: the implementation is the same."""
    found: set[str] = set()
    for most in (0, 2**30):
        with primitive.UNFREED.override(most), primitive.steadily(True):
            primitive.PRIMITIVES.clear()
            found.add(REQUESTS[name]().implementation)
            assert not REQUESTS[name]().never_freed
    assert len(found) == 1
