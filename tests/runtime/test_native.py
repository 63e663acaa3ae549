"""The argument block and the call of native kernels."""

from __future__ import annotations

import ctypes
import gc
import re
import threading
from collections.abc import Callable

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.runtime import native
from tazza.runtime.native import NativeArguments, NativeTensor, call_native, native_arguments, native_tensor
from tests.patience import LONG_S

FLOAT = 1  # of TensorProto.DataType


def address_of(function: Callable[[int], int]) -> tuple[int, object]:
    """Return the address of a C function made of a Python one, and what keeps it alive."""
    made = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(function)
    address = ctypes.cast(made, ctypes.c_void_p).value
    assert address is not None
    return address, made


def test_structures_have_the_members_and_sizes_of_the_header() -> None:
    header = (native.include_folder() / "tazza_module.h").read_text()
    for name, structure in (("tazza_tensor_t", NativeTensor), ("tazza_arguments_t", NativeArguments)):
        found = re.search(r"typedef struct \{([^}]*)\} " + name, header)
        assert found is not None
        body = re.sub(r"/\*.*?\*/", "", found.group(1), flags=re.DOTALL)
        members = re.findall(r"(\w+);", body)
        assert members == [field[0] for field in structure._fields_]
    assert (ctypes.sizeof(NativeTensor), ctypes.sizeof(NativeArguments)) == (40, 48)
    assert f"#define TAZZA_ABI_VERSION {native.ABI_VERSION}u" in header


def test_a_block_holds_what_it_was_given_and_keeps_it_alive() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    block = native_arguments(
        [native_tensor(values.ctypes.data, (2, 3), (3, 1), FLOAT), native_tensor(values.ctypes.data, (), (), FLOAT)],
        [native_tensor(0, (5, 0, 7), (0, 7, 1), FLOAT)],
        scratch=values.ctypes.data,
        scratch_bytes=24,
    )
    gc.collect()
    junk = [native_tensor(0, (0, 11), (13, 17), 3) for _ in range(100)]  # would reuse what had been freed
    assert (block.size_of_this, block.input_count, block.output_count, block.scratch_bytes) == (48, 2, 1, 24)
    first, second, output = block.inputs[0], block.inputs[1], block.outputs[0]
    assert (first.data, first.rank, first.dims[0], first.dims[1]) == (values.ctypes.data, 2, 2, 3)
    assert (first.strides[0], first.strides[1], first.dtype) == (3, 1, FLOAT)
    assert second.rank == 0
    assert ([output.dims[i] for i in range(3)], output.data) == ([5, 0, 7], None)
    assert len(junk) == 100


def test_a_call_passes_the_block_and_returns_the_status() -> None:
    block = native_arguments([], [])
    seen: list[int] = []

    def run(arguments: int) -> int:
        seen.append(arguments)
        return -(2**40)

    address, _keep = address_of(run)
    assert call_native(address, ctypes.addressof(block)) == -(2**40)
    assert seen == [ctypes.addressof(block)]


def test_a_call_releases_the_gil() -> None:
    # libc's usleep would be slow to rely on; instead the C function waits in Python for another thread to get the GIL.
    went_on = threading.Event()
    threading.Timer(0.01, went_on.set).start()
    address, _keep = address_of(lambda _: int(went_on.wait(LONG_S)))
    assert call_native(address, 1) == 1


@pytest.mark.parametrize(("address", "block"), [(0, 1), (1, 0)])
def test_a_call_needs_addresses(address: int, block: int) -> None:
    with pytest.raises(ArgumentError, match="a native call needs two addresses"):
        call_native(address, block)


def test_a_tensor_is_checked() -> None:
    with pytest.raises(ArgumentError, match="as many strides as dims, got 1 and 2"):
        native_tensor(1, (2, 3), (1,), FLOAT)
    with pytest.raises(ArgumentError, match=r"of dims \(2, 3\) has elements, but its address is 0"):
        native_tensor(0, (2, 3), (3, 1), FLOAT)
