"""A cuDNN that answers as its documentation says, over the fake driver: convolutions of NumPy, on its streams."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tazza.device.cuda.vendor import TYPES
from tazza.engines.cudnn._declarations import FUNCTIONS
from tazza.engines.cudnn.library import CUDNN
from tests.device.cuda_driver import FakeCUDA

INVALID = 2000
KINDS: dict[int, Any] = {0: np.float32, 2: np.float16, 9: ml_dtypes.bfloat16}
WORKSPACE = 256

Array = NDArray[Any]


def _integers(address: int, count: int) -> tuple[int, ...]:
    return tuple((ctypes.c_int * count).from_address(address))


class FakeCudnn:
    """The library; its functions are real C pointers of the declared types."""

    gpu: FakeCUDA

    def __init__(self) -> None:
        """Answer over the driver that `gpu` will be."""
        self.handles: dict[int, int] = {}
        self.descriptors: dict[int, dict[str, Any]] = {}
        self._numbers = itertools.count(7000)
        self.library: Any = SimpleNamespace(fake=self)
        for name, letters in FUNCTIONS.items():
            kind = ctypes.CFUNCTYPE(TYPES[letters[0]], *(TYPES[letter] for letter in letters[1:]))
            setattr(self.library, name, kind(getattr(self, name, None) or self._function(name)))

    def _function(self, name: str) -> Callable[..., int]:
        if name.startswith("cudnnCreate") and name.endswith("Descriptor"):
            return self._make
        if name.startswith("cudnnDestroy") and name.endswith("Descriptor"):
            return self._end
        if name.startswith("cudnnGetConvolution"):
            return self._algorithms
        return lambda *args: INVALID  # nobody calls it

    def _end(self, descriptor: int) -> int:
        return 0 if self.descriptors.pop(descriptor, None) is not None else INVALID

    def _make(self, descriptor: int) -> int:
        made = next(self._numbers)
        self.descriptors[made] = {}
        ctypes.c_void_p.from_address(descriptor).value = made
        return 0

    def cudnnCreate(self, handle: int) -> int:
        """Make a handle."""
        made = next(self._numbers)
        self.handles[made] = 0
        ctypes.c_void_p.from_address(handle).value = made
        return 0 if self.gpu.current is not None else INVALID

    def cudnnDestroy(self, handle: int) -> int:
        """End one."""
        return 0 if self.handles.pop(handle, None) is not None else INVALID

    def cudnnGetVersion(self) -> int:
        """Tell a version."""
        return 91000

    def cudnnGetErrorString(self, status: int) -> int | None:
        """Tell nothing."""
        return None

    def cudnnSetStream(self, handle: int, stream: int) -> int:
        """Queue on a stream from now on."""
        self.handles[handle] = stream
        return 0

    def cudnnSetTensorNdDescriptor(self, descriptor: int, kind: int, count: int, dims: int, steps: int) -> int:
        """Describe a tensor."""
        self.descriptors[descriptor] = {"kind": kind, "dims": _integers(dims, count), "steps": _integers(steps, count)}
        return 0 if count in (4, 5) else INVALID

    def cudnnSetFilterNdDescriptor(self, descriptor: int, kind: int, form: int, count: int, dims: int) -> int:
        """Describe filters, which lie as images of that order do."""
        extents = _integers(dims, count)
        order = [0, *range(2, count), 1] if form == 1 else list(range(count))
        steps, step = [0] * count, 1
        for axis in reversed(order):
            steps[axis] = step
            step *= extents[axis]
        self.descriptors[descriptor] = {"kind": kind, "dims": extents, "steps": tuple(steps)}
        return 0 if count in (4, 5) else INVALID

    def cudnnSetConvolutionNdDescriptor(self, descriptor: int, count: int, *given: int) -> int:
        """Describe windows."""
        pads, strides, dilations, mode, kind = given
        names = ("pads", "strides", "dilations")
        found = {name: _integers(one, count) for name, one in zip(names, (pads, strides, dilations), strict=True)}
        self.descriptors[descriptor] = found
        return 0 if (mode, kind) == (1, 0) else INVALID

    def cudnnSetConvolutionGroupCount(self, descriptor: int, groups: int) -> int:
        """Set the groups."""
        self.descriptors[descriptor]["groups"] = groups
        return 0

    def cudnnSetConvolutionMathType(self, descriptor: int, kind: int) -> int:
        """Compute without TF32."""
        self.descriptors[descriptor]["math"] = kind
        return 0

    def _algorithms(self, handle: int, *given: int) -> int:
        _, _, _, _, most, count, found = given
        assert most > 0
        ctypes.c_int.from_address(count).value = 2
        ctypes.memset(found, 0, 96)
        for k, (number, deterministic) in enumerate(((5, 0), (1, 1))):
            values = (ctypes.c_int * 12).from_address(found + 48 * k)
            values[0], values[4], values[6] = number, WORKSPACE, deterministic
        return 0

    # -- work ----------------------------------------------------------------------------------------------------------

    def _array(self, descriptor: int, address: int) -> Array:
        found = self.descriptors[descriptor]
        dtype = np.dtype(KINDS[found["kind"]])
        span = sum((n - 1) * step for n, step in zip(found["dims"], found["steps"], strict=True)) + 1
        memory: Any = (ctypes.c_uint8 * (span * dtype.itemsize)).from_address(address)
        return np.ndarray(found["dims"], dtype, memory, 0, [step * dtype.itemsize for step in found["steps"]])

    def _run(self, handle: int, scales: tuple[int, int], target: Array, compute: Callable[[], Array]) -> int:
        factors = [ctypes.c_float.from_address(one).value for one in scales]

        def work() -> None:
            value = factors[0] * compute()
            target[...] = (value + factors[1] * target.astype(np.float32) if factors[1] else value).astype(target.dtype)

        self.gpu.launch(self.handles[handle], work)
        return 0

    def _convolve(self, given: tuple[int, ...], compute: Callable[..., Array]) -> int:
        handle, alpha, d1, a1, d2, a2, convolution, algorithm, space, nbytes, beta, d3, a3 = given
        if algorithm != 1 or nbytes != WORKSPACE or self.gpu.kind_at(space) == "ordinary":
            return INVALID
        first, second, target = self._array(d1, a1), self._array(d2, a2), self._array(d3, a3)
        form = self.descriptors[convolution]
        return self._run(handle, (alpha, beta), target, lambda: compute(form, first, second, target.shape))

    def cudnnConvolutionForward(self, *given: int) -> int:
        """Y from X and W."""
        return self._convolve(given, _forward)

    def cudnnConvolutionBackwardFilter(self, *given: int) -> int:
        """Return dW from X and dY."""
        return self._convolve(given, _filters)

    def cudnnConvolutionBackwardData(self, *given: int) -> int:
        """Return dX from W and dY."""
        return self._convolve(given, _data)

    def cudnnConvolutionBackwardBias(self, handle: int, *given: int) -> int:
        """Return db from dY."""
        alpha, d1, dY, beta, d2, db = given
        slope, target = self._array(d1, dY), self._array(d2, db)
        axes = tuple(axis for axis in range(slope.ndim) if axis != 1)
        return self._run(handle, (alpha, beta), target, lambda: slope.astype(np.float32).sum(axes, keepdims=True))

    def cudnnAddTensor(self, handle: int, *given: int) -> int:
        """Add b to Y."""
        alpha, d1, b, beta, d2, Y = given
        bias, target = self._array(d1, b), self._array(d2, Y)
        return self._run(handle, (alpha, beta), target, lambda: bias.astype(np.float32) + np.zeros(target.shape, "f"))


def _taps(form: dict[str, Any], X: Array, W: Array, out: tuple[int, ...]) -> Iterator[tuple[Any, Any, slice, slice]]:
    """Yield for each place of a filter and each group: the place, what of an image it sees, channels, filters."""
    groups = form["groups"]
    C, M = W.shape[1], W.shape[0] // groups
    for tap in itertools.product(*map(range, W.shape[2:])):
        sides = zip(tap, form["dilations"], form["strides"], out, strict=True)
        seen = tuple(slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, s, n in sides)
        for g in range(groups):
            yield tap, seen, slice(g * C, (g + 1) * C), slice(g * M, (g + 1) * M)


def _padded(form: dict[str, Any], X: Array) -> Array:
    return np.pad(X.astype(np.float64), [(0, 0), (0, 0), *((pad, pad) for pad in form["pads"])])


def _forward(form: dict[str, Any], X: Array, W: Array, shape: tuple[int, ...]) -> Array:
    padded, Y = _padded(form, X), np.zeros(shape)
    for tap, seen, channels, filters in _taps(form, X, W, shape[2:]):
        w = W[(filters, slice(None), *tap)].astype(np.float64)
        Y[:, filters] += np.einsum("nc...,mc->nm...", padded[(slice(None), channels, *seen)], w)
    return Y.astype(np.float32)


def _filters(form: dict[str, Any], X: Array, dY: Array, shape: tuple[int, ...]) -> Array:
    padded, dW, dy = _padded(form, X), np.zeros(shape), dY.astype(np.float64)
    for tap, seen, channels, filters in _taps(form, X, dW, dY.shape[2:]):
        found = padded[(slice(None), channels, *seen)]
        dW[(filters, slice(None), *tap)] = np.einsum(
            "ncp,nmp->mc",
            found.reshape(*found.shape[:2], -1),
            dy[:, filters].reshape(len(dy), -1, int(np.prod(dy.shape[2:]))),
        )
    return dW.astype(np.float32)


def _data(form: dict[str, Any], W: Array, dY: Array, shape: tuple[int, ...]) -> Array:
    padded, dy = _padded(form, np.zeros(shape, np.float32)), dY.astype(np.float64)
    for tap, seen, channels, filters in _taps(form, padded, W, dY.shape[2:]):
        w = W[(filters, slice(None), *tap)].astype(np.float64)
        padded[(slice(None), channels, *seen)] += np.einsum("nm...,mc->nc...", dy[:, filters], w)
    inside = tuple(slice(pad, pad + n) for pad, n in zip(form["pads"], shape[2:], strict=True))
    return padded[(slice(None), slice(None), *inside)].astype(np.float32)


@contextmanager
def fake_cudnn() -> Generator[FakeCudnn]:
    """Let there be a cuDNN until the block ends, for the fake driver that `gpu` of it is set to."""
    made = FakeCudnn()
    CUDNN.use(made.library)
    try:
        yield made
        assert made.handles == {}, "handles end with their contexts"
    finally:
        CUDNN.use(None)
