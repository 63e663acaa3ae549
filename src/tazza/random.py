"""Random numbers: streams that are seeded, and draw tensors. The same seed gives the same numbers, on any machine.

A stream is an MT19937 as Caffe2's operators have one, mapped to numbers as they map it: what `default_rng(5).uniform`
gives are the numbers of the operator UniformFill with the seed 5, to the last bit, and `normal` those of GaussianFill.
They are made in float32, and other element types are converted from it.

A stream of a device, `default_rng(5, device="cuda:0")`, draws there, in any order: its words are those of a counter
(`device.philox`), so its numbers are others. `default_rng(5, counter_based=True)` gives these on the host, normal ones
to a rounding, and `default_rng(5, device="cuda:0", counter_based=False)` those of Caffe2, copied to the device.

Methods have the names and the arguments of `numpy.random.Generator`; NumPy's own numbers are others.

>>> from tazza.random import default_rng
>>> default_rng(1).uniform(size=3)
Tensor([0.7576316 , 0.27931088, 0.40306926], dtype=float32)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from tazza.array.creation import Device, asarray
from tazza.array.deferred import lazy
from tazza.device.generator import Generator
from tazza.device.philox import CounterGenerator
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.place import CPUPlace, Place
from tazza.tensor.tasks import Tasks
from tazza.tensor.tensor import Tensor
from tazza.tensor.transfer import copy_to, to_place

__all__ = ["RandomStream", "default_rng"]

DType: TypeAlias = DataType | npt.DTypeLike
Size: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None

FLOAT32_MAX = float(np.finfo(np.float32).max)
NUMBERS_END = 2**60
"""Tensors have fewer numbers: those of eight bytes have up to 2**63."""
SPAN = 2**32
"""Integers that a range of `integers` may have: a number is made of one output of 32 bits."""


def __dir__() -> list[str]:
    """Name what is for users."""
    return sorted(__all__)


class Draw(NamedTuple):
    """Numbers of a stream that follow from a key and a position, to be made where the target lies.

    `kind` is the method of `CounterGenerator` that gives the same: `uniform` and `gaussian` are low + range * what it
    gives by default, in float32; `integers`, in int64, low + a word's remainder by range.
    """

    kind: str
    key: int
    position: int
    low: float
    range: float
    target: Tensor
    place: Place

    @property
    def dtype(self) -> DataType:
        """The element type of the target."""
        return self.target.dtype

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.target.shape)

    def __str__(self) -> str:
        return f"{self.kind} numbers"


DEVICE_STREAMS: Tasks[Draw, Callable[[], None]] = Tasks("stream of a device", "device_random")


class RandomStream:
    """Random numbers one after the other; each call goes on where the last one stopped. It is for one thread.

    `size` is a shape, or the extent of one axis; None is a single number, a tensor of rank 0.
    """

    def __init__(self, seed: int | None = None, device: Device = None, counter_based: bool | None = None) -> None:
        """Begin with a seed, 0 <= seed < 2**32; None takes one from the operating system.

        `device` is where tensors are made. `counter_based` says whether words follow from a counter, so that a device
        makes them, or from each other as those of Caffe2, which the host does; None: on a device they do.

        Raises:
            ArgumentError: another seed.
        """
        if seed is not None and not 0 <= operator.index(seed) < 2**32:
            raise ArgumentError(f"seed = {seed} is not between 0 and {2**32 - 1}")
        self._place = CPUPlace() if device is None else Place.parse(device) if isinstance(device, str) else device
        counted = not self._place.is_host if counter_based is None else counter_based
        begun = None if seed is None else operator.index(seed)
        self._generator = CounterGenerator(begun) if counted else Generator(begun)

    def __repr__(self) -> str:
        """Return how it was begun; how far it is does not show."""
        seed, counted = self._generator.seed, isinstance(self._generator, CounterGenerator)
        shown = [] if seed is None else [str(seed)]
        if not self._place.is_host:
            shown.append(f"device={str(self._place)!r}")
        if counted is self._place.is_host:
            shown.append(f"counter_based={counted}")
        return f"default_rng({', '.join(shown)})"

    def random(self, size: Size = None, dtype: DType = "float32") -> Tensor:
        """Return numbers, uniform in [0, 1)."""
        return self.uniform(size=size, dtype=dtype)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Size = None, dtype: DType = "float32") -> Tensor:
        """Return numbers, uniform in [low, high).

        Raises:
            ArgumentError: bounds, or a range between them, that float32 does not hold.
        """
        _check_float32(low=low, high=high)
        _check_float32(range=np.float64(high) - np.float64(low))
        shape, kind = _shape(size), _float(dtype)
        if self._draws_there:
            return self._there("uniform", shape, (low, float(np.float32(high) - np.float32(low))), kind)
        return self._tensor(self._generator.uniform(shape.numel, low, high), shape, kind)

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Size = None, dtype: DType = "float32") -> Tensor:
        """Return numbers from the normal distribution with the mean `loc` and the standard deviation `scale`.

        Raises:
            ArgumentError: a `scale` below 0, or numbers that float32 does not hold.
        """
        _check_float32(loc=loc, scale=scale)
        if scale < 0:
            raise ArgumentError(f"scale = {scale} is below 0")
        shape, kind = _shape(size), _float(dtype)
        if self._draws_there:
            return self._there("gaussian", shape, (loc, scale), kind)
        return self._tensor(self._generator.gaussian(shape.numel, loc, scale), shape, kind)

    def standard_normal(self, size: Size = None, dtype: DType = "float32") -> Tensor:
        """Return numbers from the normal distribution with the mean 0 and the standard deviation 1."""
        return self.normal(size=size, dtype=dtype)

    def integers(
        self,
        low: int,
        high: int | None = None,
        size: Size = None,
        dtype: DType = "int64",
        *,
        endpoint: bool = False,
    ) -> Tensor:
        """Return integers from `low` to `high`, which itself is among them with `endpoint` only; of 0 to `low` alone.

        Raises:
            ArgumentError: there is no integer in between, or there are more than 2**32.
            DTypeError: an element type that does not hold them.

        >>> sorted(set(RandomStream(1).integers(2, 5, size=60).tolist()))
        [2, 3, 4]
        """
        first, last = (0, low) if high is None else (low, high)
        last -= not endpoint
        kind = DataType.of(dtype)
        if not 0 <= last - first < SPAN:
            raise ArgumentError(f"{last - first + 1} integers to draw from", hint=f"1 to {SPAN} of them")
        if kind.numpy.kind not in "iu":
            raise DTypeError(f"integers of type {kind}", hint="take an integer type")
        limits = np.iinfo(kind.numpy)
        if first < limits.min or last > limits.max:
            raise DTypeError(f"{first} to {last} do not fit {kind}: {limits.min} to {limits.max}")
        shape = _shape(size)
        if self._draws_there:
            return self._there("integers", shape, (first, last - first + 1), kind)
        return self._tensor(self._generator.integers(shape.numel, first, last, np.int64), shape, kind)

    def permutation(self, x: int | Tensor | npt.NDArray[np.generic] | Sequence[object], axis: int = 0) -> Tensor:
        """Return the parts of `x` along an axis in another order, each order as probable; of a number 0 ... x - 1.

        The host sorts, and puts together what it copies to the device of the stream.

        >>> sorted(RandomStream(1).permutation(5).tolist())
        [0, 1, 2, 3, 4]
        """
        from tazza.array.creation import arange
        from tazza.array.searching import take

        whole = arange(x) if isinstance(x, int) else _here(asarray(x))
        return self._moved(take(whole, self._order(whole.shape[whole.shape.canonical_axis(axis)]), axis=axis))

    def shuffle(self, x: Tensor, axis: int = 0) -> None:
        """Bring the parts of `x` along an axis into another order, where they are."""
        shuffled = self.permutation(x, axis)
        if x.place.is_host:
            x[...] = _here(shuffled)
        else:
            copy_to(to_place(shuffled, x.place), x)

    def choice(
        self, a: int | Tensor | npt.NDArray[np.generic] | Sequence[object], size: Size = None, *, replace: bool = True
    ) -> Tensor:
        """Return parts of `a` along its first axis (of a number 0 ... a - 1), each as probable; without `replace` once.

        The host puts them together, but for numbers with `replace`: these are `integers`.

        Raises:
            ArgumentError: without `replace`, more than there are.
        """
        from tazza.array.creation import arange

        whole = arange(a) if isinstance(a, int) else _here(asarray(a))
        if not whole.shape:
            raise ArgumentError("there is no axis to choose along", hint="pass a number, or what has parts")
        count, shape = whole.shape[0], _shape(size)
        if replace:
            drawn = self.integers(count, size=shape)
            return drawn if isinstance(a, int) else self._moved(whole.take(_here(drawn), 0))
        if shape.numel > count:
            raise ArgumentError(f"{shape.numel} of {count} parts, each at most once", hint="replace=True")
        return self._moved(whole.take(self._order(count)[: shape.numel].reshape(shape), 0))

    def _order(self, count: int) -> Tensor:
        """Return 0 ... count - 1 as keys of 64 random bits sort them."""
        words = self._generator.raw(2 * count).astype(np.uint64)
        return Tensor.from_numpy(np.argsort(words[0::2] << np.uint64(32) | words[1::2], kind="stable"))

    # -- where tensors are made ----------------------------------------------------------------------------------------

    @property
    def _draws_there(self) -> bool:
        """Whether a device makes the numbers."""
        return not self._place.is_host and isinstance(self._generator, CounterGenerator)

    def _there(self, kind: str, shape: Dim, span: tuple[float, float], dtype: DataType) -> Tensor:
        """Return numbers that the device makes: low + range * what it draws."""
        assert isinstance(self._generator, CounterGenerator), "others are drawn on the host"
        made = Tensor(shape, DataType.INT64 if kind == "integers" else DataType.FLOAT, self._place)
        position = self._generator.begin(kind, made.size)
        draw = Draw(kind, self._generator.key, position, *span, made, self._place)
        DEVICE_STREAMS.choose(draw).run()
        made.mark_written()
        return made if dtype is made.dtype else lazy(made).cast(dtype).evaluate()

    def _moved(self, tensor: Tensor) -> Tensor:
        return tensor if self._place.is_host else to_place(tensor, self._place)

    def _tensor(self, numbers: npt.NDArray[np.generic], shape: Dim, kind: DataType) -> Tensor:
        assert numbers.size == math.prod(shape)
        made = Tensor.from_numpy(numbers.reshape(shape).astype(kind.numpy, copy=False), copy=False)
        return self._moved(made)


def default_rng(seed: int | None = None, *, device: Device = None, counter_based: bool | None = None) -> RandomStream:
    """Return a stream of random numbers, as `numpy.random.default_rng` does; None draws the seed.

    `device` and `counter_based` are those of `RandomStream`.
    """
    return RandomStream(seed, device, counter_based)


def _shape(size: Size) -> Dim:
    if size is None:
        return Dim()
    shape = Dim(size) if isinstance(size, Sequence) else Dim((operator.index(size),))
    if shape.numel >= NUMBERS_END:
        raise ShapeError(f"no tensor: extents {tuple(shape)} are for {NUMBERS_END} numbers or more")
    return shape


def _check_float32(**numbers: float) -> None:
    """Refuse numbers of which none could be made: all are made in float32.

    Raises:
        ArgumentError: it does not hold one.
    """
    for name, value in numbers.items():
        if not abs(value) <= FLOAT32_MAX:
            raise ArgumentError(f"{name} = {value}", hint=f"a finite number up to {FLOAT32_MAX:g}")


def _float(dtype: DType) -> DataType:
    kind = DataType.of(dtype)
    if not kind.is_float:
        raise DTypeError(f"numbers between others of type {kind}", hint="take a floating-point type, or integers()")
    return kind


def _here(tensor: Tensor) -> Tensor:
    """Return a tensor on the host."""
    return tensor if tensor.place.is_host else to_place(tensor, CPUPlace())
