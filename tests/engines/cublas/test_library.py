"""cuBLAS: its handle, its errors, and how it is found."""

from __future__ import annotations

import pytest

from tazza.device import current_context, stream_pool, streaming
from tazza.device.cuda import queue_of, vendor
from tazza.device.cuda.vendor import Facts, VendorLibrary
from tazza.engines.cublas._declarations import FUNCTIONS
from tazza.engines.cublas.library import CUBLAS
from tazza.errors import KernelError, UnavailableError
from tazza.tensor import CUDAPlace

DEVICE = CUDAPlace(0)
NO_HANDLE = ("", "", "")


def test_a_context_has_one_handle_and_each_stream_its_own() -> None:
    context = current_context(DEVICE)
    assert CUBLAS.handle_of(context) == CUBLAS.handle_of(context)
    with streaming(stream_pool(DEVICE).take()):
        assert CUBLAS.handle_of(current_context(DEVICE)) != CUBLAS.handle_of(context)


def test_what_it_refuses_is_an_error() -> None:
    with pytest.raises(KernelError, match="cuBLAS answers cublasDestroy_v2 with status"):
        CUBLAS.call(queue_of(current_context(DEVICE)).device, "cublasDestroy_v2", None)


def test_a_library_that_is_not_there_says_how_one_gets_it() -> None:
    facts = Facts("cuNothing", ("libno_such.so.1",), FUNCTIONS, "", frozenset(), "pip install nothing", NO_HANDLE)
    missing = VendorLibrary(facts)
    assert "cuNothing cannot be loaded" in str(missing.unavailable())
    with pytest.raises(UnavailableError, match="cuNothing cannot be loaded") as raised:
        missing.functions()
    assert raised.value.hint == "pip install nothing"
    lacking = VendorLibrary(Facts("libc", ("libc.so.6",), FUNCTIONS, "", frozenset(), "a newer one", NO_HANDLE))
    assert "has no cublasCreate_v2" in str(lacking.unavailable())


def test_what_is_not_there_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator asks, and to look takes milliseconds."""
    looked: list[object] = []

    def found(files: object) -> list[str]:
        looked.append(files)
        return []

    monkeypatch.setattr(vendor, "_in_wheels", found)
    facts = Facts("libnone", ("libnone.so.1",), FUNCTIONS, "", frozenset(), "a wheel", NO_HANDLE)
    library = VendorLibrary(facts)
    reasons = {library.unavailable() for _ in range(3)}
    assert len(reasons) == len(looked) == 1
    library.use(None)  # now it may be there
    assert library.unavailable() in reasons
    assert len(looked) == 2
