"""What the fake driver answers, by the numbers of the real one, and what these mean."""

from __future__ import annotations

from tazza.device.cuda.driver import OUT_OF_MEMORY

INVALID_VALUE, INVALID_CONTEXT, INVALID_CODE, INVALID_HANDLE = 1, 201, 218, 400
NOT_FOUND, TIMED_OUT, NOT_PERMITTED = 500, 702, 800
TEXTS = {
    INVALID_VALUE: b"invalid argument",
    OUT_OF_MEMORY: b"out of memory",
    100: b"no CUDA-capable device is detected",
    INVALID_CONTEXT: b"invalid device context",
    INVALID_CODE: b"a PTX JIT compilation failed",
    INVALID_HANDLE: b"invalid resource handle",
    NOT_FOUND: b"named symbol not found",
    700: b"an illegal memory access was encountered",
    TIMED_OUT: b"the launch timed out and was terminated",
    NOT_PERMITTED: b"operation not permitted",
}
