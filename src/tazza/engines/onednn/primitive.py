"""Attributes, primitive descriptors and primitives, and the cache of all that were made.

`describe("convolution_forward", ...)` calls `dnnl_convolution_forward_primitive_desc_create` with the arguments in the
header's order; engine and attributes are put in where the header wants them. Arguments are `Descriptor` (None: none),
names of constants without `dnnl_` ("forward_training", "convolution_direct"), numbers, tuples of these, and a
`PrimitiveDescriptor` as the forward hint.

A primitive descriptor answers what was chosen (layouts, implementation, scratch memory); the primitive, whose code is
generated, is made when a launch wants it. Both are made under the number of OpenMP threads that they will run with, so
that number is part of the key. Primitives use scratch memory that the caller brings; so one may run in many threads.

oneDNN 3.2 never frees the code of some primitives (`never_freed`), so that nets that meet new shapes all the time would
grow without end. Of these it makes `UNFREED`; from then on a descriptor is the next implementation that is freed.

Changing state: `PRIMITIVES`, under `_lock`; what was not asked for the longest goes beyond `MOST`. `_unfreed` counts,
under `_lock`, the primitives that are never freed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from typing import Any, TypeAlias, cast

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor, type_number
from tazza.engines.onednn.library import Unimplemented, check, constant, engine, ffi, lib, owned, version
from tazza.runtime.cache import Cache, remembered
from tazza.runtime.flags import flag
from tazza.runtime.fork import Guard
from tazza.runtime.fpmath import FPMATH
from tazza.runtime.machine import machine
from tazza.runtime.memory import require_room
from tazza.runtime.openmp import openmp_threads, set_openmp_threads
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType

MOST = flag("onednn_primitives", 2048, "primitives that are kept for the next operator that wants the same", minimum=1)
_steady: ContextVar[bool] = ContextVar("steady", default=False)
UNFREED = flag(
    "onednn_unfreed",
    1024,
    "primitives whose code oneDNN never frees (8 to 90 KB each) that are made before its next implementation is taken",
    minimum=0,
)
SERIAL_US = flag(
    "onednn_serial_us", 8.0, "launches estimated to take less (in microseconds) run on one thread", kernels=True
)
COMPUTE_SHARE, CACHE_SHARE = 0.21, 0.89
"""Parts of the rates of the machine that one thread gets through, for the estimate only."""
NUMBER_MAX = 2**31 - 1
"""Strides, dilations and pads beyond overflow in its own arithmetic."""
ROOM_BYTES = 32 << 20
"""What must be free before it generates code: many times what a primitive takes."""


# -- attributes --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Eltwise:
    """Post-op y = f(y); `algorithm` such as "eltwise_relu" with its alpha and beta."""

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0

    def append(self, ops: Any) -> None:
        """Append to a chain of post-ops."""
        status = lib.dnnl_post_ops_append_eltwise(ops, constant(f"dnnl_{self.algorithm}"), self.alpha, self.beta)
        check(status, f"post-op {self.algorithm}")


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Post-op y = y + scale * (what the destination held - zero_point)."""

    scale: float = 1.0
    zero_point: int = 0

    def append(self, ops: Any) -> None:
        """Append to a chain of post-ops."""
        status = lib.dnnl_post_ops_append_sum(ops, self.scale, self.zero_point, constant("dnnl_data_type_undef"))
        check(status, "post-op sum")


@dataclass(frozen=True, slots=True)
class Binary:
    """Post-op y = f(y, s) with a tensor s that broadcasts; its argument is `post_op(i)`."""

    algorithm: str
    operand: Descriptor

    def append(self, ops: Any) -> None:
        """Append to a chain of post-ops."""
        status = lib.dnnl_post_ops_append_binary(ops, constant(f"dnnl_{self.algorithm}"), self.operand.handle)
        check(status, f"post-op {self.algorithm} with {self.operand}")


@dataclass(frozen=True, slots=True)
class Depthwise:
    """Post-op y = conv(y, V, c), depthwise, with the same numbers along both axes; arguments: `depthwise_argument`.

    V and the result have elements of `dtype`, c of float32. The destination is asked for as if this were not there;
    what is found has the form behind it.
    """

    dtype: DataType
    kernel: int
    stride: int
    head: int

    def append(self, ops: Any) -> None:
        """Append to a chain of post-ops."""
        number, bias = type_number(self.dtype), type_number(DataType.FLOAT)
        status = lib.dnnl_post_ops_append_dw(ops, number, bias, number, self.kernel, self.stride, self.head)
        check(status, "post-op depthwise convolution")


PostOp: TypeAlias = Eltwise | Accumulate | Binary | Depthwise


def depthwise_argument(name: str) -> int:
    """Return the argument number of "weights" or "bias" of a `Depthwise`."""
    return constant("DNNL_ARG_ATTR_POST_OP_DW") | argument_number(name)


def scale_argument(name: str) -> int:
    """Return the argument number of the scales of an argument."""
    return constant("DNNL_ARG_ATTR_SCALES") | argument_number(name)


def zero_point_argument(name: str) -> int:
    """Return the argument number of the zero point of an argument."""
    return constant("DNNL_ARG_ATTR_ZERO_POINTS") | argument_number(name)


def post_op(position: int) -> int:
    """Return the argument number of the tensor of a `Binary` at `position` among the post-ops."""
    return constant("DNNL_ARG_ATTR_MULTIPLE_POST_OP_BASE") * (position + 1) + constant("DNNL_ARG_SRC_1")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What modifies a primitive: post-ops in order, and the type float32 math may be done in ("" keeps float32).

    `scales` and `zero_points` are arguments that have some: (name, mask), bit i of which says that they vary along
    axis i. Their values are arguments of a run, `scale_argument` and `zero_point_argument`.
    """

    post_ops: tuple[PostOp, ...] = ()
    fpmath: str = ""
    scales: tuple[tuple[str, int], ...] = ()
    zero_points: tuple[str, ...] = ()

    def create(self) -> Any:
        """Return the owned attributes of oneDNN."""
        made = owned("primitive_attr")
        user = constant("dnnl_scratchpad_mode_user")
        check(lib.dnnl_primitive_attr_set_scratchpad_mode(made, user), "dnnl_primitive_attr_set_scratchpad_mode")
        if self.fpmath:
            mode = constant(f"dnnl_fpmath_mode_{self.fpmath}")
            check(lib.dnnl_primitive_attr_set_fpmath_mode(made, mode), "dnnl_primitive_attr_set_fpmath_mode")
        for name, mask in self.scales:
            check(lib.dnnl_primitive_attr_set_scales_mask(made, argument_number(name), mask), f"scales of {name}")
        for name in self.zero_points:
            check(lib.dnnl_primitive_attr_set_zero_points_mask(made, argument_number(name), 0), f"zero point of {name}")
        if self.post_ops:
            chain = owned("post_ops")
            for one in self.post_ops:
                one.append(chain)
            check(lib.dnnl_primitive_attr_set_post_ops(made, chain), "dnnl_primitive_attr_set_post_ops")
        return made


def float_math() -> Attributes:
    """Return the attributes that the flags ask for."""
    return Attributes(fpmath=FPMATH.value)


# -- threads -----------------------------------------------------------------------------------------------------------


def threads_for(flops: int, nbytes: int) -> int:
    """Return the number of OpenMP threads that a launch of that size is worth: the one place where this is decided."""
    model = machine()
    compute_ns = flops / (COMPUTE_SHARE * model.flops_per_ns)
    estimate_us = max(compute_ns, nbytes / (CACHE_SHARE * model.cache_bytes_per_ns)) / 1000
    return 1 if estimate_us < SERIAL_US.value else thread_count()


@contextmanager
def with_openmp_threads(count: int) -> Generator[None]:
    """Let this thread's parallel regions use `count` threads inside of the block."""
    former = openmp_threads()
    set_openmp_threads(count)
    try:
        yield
    finally:
        set_openmp_threads(former)


# -- primitives --------------------------------------------------------------------------------------------------------

Argument: TypeAlias = "Descriptor | PrimitiveDescriptor | str | int | float | tuple[Any, ...] | None"


class PrimitiveDescriptor:
    """What oneDNN will do for one operation on given descriptors: chosen layouts, implementation, scratch memory."""

    def __init__(self, handle: Any, key: tuple[Any, ...], threads: int) -> None:
        """Take over a handle that was made for `threads` threads; `key` is what it was made from and kept alive by."""
        self.handle = ffi.gc(handle, lib.dnnl_primitive_desc_destroy)
        self.key = key
        self.threads = threads
        self._arguments: dict[int, Descriptor] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PrimitiveDescriptor) and (self is other or self.key == other.key)

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"PrimitiveDescriptor({self.key[0]}, {self.implementation}, threads={self.threads})"

    @cached_property
    def implementation(self) -> str:
        """The name that oneDNN gives the code it chose, such as `brgconv:avx512_core`."""
        found = ffi.new("char **")
        query = constant("dnnl_query_impl_info_str")
        check(lib.dnnl_primitive_desc_query(self.handle, query, 0, found), "query of impl_info_str")
        return ffi.string(found[0]).decode()

    @property
    def is_slow(self) -> bool:
        """Whether oneDNN fell back on an implementation that is there to be right, not fast: an element at a time."""
        return self.implementation.startswith(("ref", "simple:any", "simple_nchw")) or "+ref" in self.implementation

    @property
    def unless_slow(self) -> PrimitiveDescriptor:
        """This one.

        Raises:
            Unimplemented: oneDNN fell back on such an implementation, or hands the work on to one ("conv:any+ref:any").
        """
        if self.is_slow:
            raise Unimplemented(f"oneDNN has only its reference code ({self.implementation})")
        return self

    @property
    def is_best(self) -> bool:
        """Whether the code was generated for just this, rather than put together from matrix products."""
        return not self.is_slow and "gemm" not in self.implementation

    @cached_property
    def never_freed(self) -> bool:
        """Whether code stays when the primitive goes: that of `brgconv` with a function behind it, or on tiles (AMX).

        Measured, not documented; `tests/engines/onednn/test_primitive.py` measures it and fails where it holds no more.
        """
        name, attributes = self.implementation, self.key[2]
        followed = any(isinstance(one, Eltwise) for one in attributes.post_ops)
        return "brgconv" in name and "bwd_w" not in name and (followed or "amx" in name)

    def argument(self, name: str | int) -> Descriptor:
        """Return the descriptor of an argument, "src", "weights", "diff_src" ... or a number; maybe an empty one."""
        number = argument_number(name)
        if number not in self._arguments:
            found = lib.dnnl_primitive_desc_query_md(self.handle, constant("dnnl_query_exec_arg_md"), number)
            function, *given = ("create_with_tag", 0, [0], 0, 0) if found == ffi.NULL else ("clone", found)
            self._arguments[number] = Descriptor.made(str(function), *given, what=f"descriptor of {name}")
        return self._arguments[number]

    @cached_property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory for one run."""
        return self.argument("scratchpad").nbytes

    @cached_property
    def primitive(self) -> Any:
        """The owned handle of the primitive, made on first use."""
        with _lock, with_openmp_threads(self.threads):
            require_room(ROOM_BYTES, "oneDNN's code generator")
            made = owned("primitive", self.handle, what=f"dnnl_primitive_create of {self.key[0]}")
            global _unfreed
            _unfreed += self.never_freed
            return made

    def alternatives(self) -> Iterator[PrimitiveDescriptor]:
        """Yield this and every further implementation that oneDNN has for the same request."""
        operation, arguments, attributes, threads, first, steady = self.key
        with suppress(LookupError):
            for skip in itertools.count(first):
                yield _cached((operation, arguments, attributes, threads, skip, steady))


@remembered("arguments of oneDNN", entries=1024)
def argument_number(name: str | int) -> int:
    """Return the number of an argument of a primitive: `DNNL_ARG_SRC` for "src"."""
    return constant(f"DNNL_ARG_{name.upper()}") if isinstance(name, str) else name


PRIMITIVES: Cache[tuple[Any, ...], PrimitiveDescriptor] = Cache("primitives of oneDNN", MOST)
_lock = Guard("primitives of oneDNN")
_unfreed: int = 0


MOST_AXES = {"batch_normalization": 5, "layer_normalization": 5, "prelu": 5, "lrn": 5}
"""Operation -> the axes of a tensor up to which oneDNN documents it; beyond it refuses, or reads and writes memory that
is not the tensor's (batch normalization of oneDNN 3.2), which only looking at the number of axes here keeps from."""


def _check_axes(operation: str, arguments: Sequence[Argument]) -> None:
    most = MOST_AXES.get(operation.removesuffix("_forward").removesuffix("_backward"))
    rank = max((len(one.dims) for one in arguments if isinstance(one, Descriptor)), default=0)
    if most is not None and rank > most:
        raise Unimplemented(f"{rank} axes: {operation} of oneDNN is for {most} at most")


def describe(
    operation: str,
    *arguments: Argument,
    attributes: Attributes | None = None,
    flops: int = 0,
    threads: int = 0,
    kept: bool = True,
) -> PrimitiveDescriptor:
    """Return the primitive descriptor of an operation, made once for equal arguments.

    Args:
        operation: name of the header's `dnnl_<operation>_primitive_desc_create`.
        arguments: see the module.
        attributes: post-ops and the like; those that the flags ask for by default.
        flops: how much it computes; with the bytes of the descriptors this decides how many threads it gets.
        threads: give it this many threads instead.
        kept: keep it for whoever asks the same; False is for callers that keep theirs within a bound of their own.

    Raises:
        Unimplemented: oneDNN cannot do that.
        KernelError: oneDNN takes the arguments for wrong.
    """
    _check_axes(operation, arguments)
    attributes = float_math() if attributes is None else attributes
    count = threads if threads else threads_for(flops, sum(_nbytes(one) for one in arguments))
    key = (operation, arguments, attributes, count, 0, _steady.get())
    if kept:
        return _cached(key)
    with _lock:
        return _create(key)


def first_fast(requests: Iterable[Callable[[], PrimitiveDescriptor]]) -> PrimitiveDescriptor:
    """Return the first of several ways to ask that is answered by code made for this processor, else the best there is.

    Raises:
        Unimplemented: oneDNN has nothing but its reference code, which is thousands of times slower, or nothing at all.
    """
    found: list[PrimitiveDescriptor] = []
    refusal = Unimplemented("oneDNN was asked in no way")
    for request in requests:
        try:
            found.append(request())
        except Unimplemented as error:
            refusal = error
            continue
        if found[-1].is_best:
            return found[-1]
    fair = [one for one in found if not one.is_slow]
    if fair:
        return fair[0]
    raise Unimplemented(f"oneDNN has only its reference code ({found[0].implementation})") if found else refusal


def _nbytes(argument: Argument) -> int:
    if isinstance(argument, Descriptor):
        return math.prod(argument.dims) * argument.dtype.itemsize
    if isinstance(argument, tuple):
        return sum(_nbytes(one) for one in argument)
    return 0


def _cached(key: tuple[Any, ...]) -> PrimitiveDescriptor:
    with _lock:
        found = PRIMITIVES.get(key)
        if found is None:
            PRIMITIVES.put(key, found := _create(key))
        return found


def _create(key: tuple[Any, ...]) -> PrimitiveDescriptor:
    operation, arguments, attributes, threads, skip, steady = key
    if any(abs(number) > NUMBER_MAX for one in arguments for number in _numbers(one)):
        raise Unimplemented(f"oneDNN takes strides, dilations and pads up to {NUMBER_MAX}")
    create = getattr(lib, f"dnnl_{operation}_primitive_desc_create")
    given = [_convert(one) for one in arguments]
    wanted = ffi.typeof(create).args[1:-1]
    handle_of_engine = ffi.typeof("dnnl_engine_t")
    # oneDNN's functions take the engine at various places; the header says where.
    values = [engine() if kind is handle_of_engine else given.pop(0) for kind in wanted]
    assert not given, f"{operation} takes {len(wanted)} arguments with the engine, {len(given)} are left over"
    require_room(ROOM_BYTES, "a primitive descriptor of oneDNN")

    def implementation(number: int) -> PrimitiveDescriptor | None:
        made = ffi.new("dnnl_primitive_desc_t *")
        status = create(made, *values, attributes.create())
        check(status, f"{operation} of {', '.join(str(one) for one in arguments if isinstance(one, Descriptor))}")
        found = PrimitiveDescriptor(made[0], key, threads)
        there = all(lib.dnnl_primitive_desc_next_impl(found.handle) == 0 for _ in range(number))
        return found if there else None

    with with_openmp_threads(threads):
        found = implementation(skip)
        if found is None:
            raise LookupError(skip)
        if found.never_freed and (steady or _unfreed >= UNFREED.value):
            return _freed(found, map(implementation, itertools.count(skip + 1)))
        return found


@contextmanager
def steadily(steady: bool) -> Generator[None]:
    """Let what is described in the block hang on nothing that was made before, if `steady`.

    The code of its primitives is freed then from the first one on: an implementation that is taken as long as there
    are few of another kind would give other bits than the next one.
    """
    before = _steady.set(steady)
    try:
        yield
    finally:
        _steady.reset(before)


def _freed(first: PrimitiveDescriptor, others: Iterator[PrimitiveDescriptor | None]) -> PrimitiveDescriptor:
    """Return the first of the others whose code is freed; the first itself where none is as good."""
    for other in others:
        if other is None or not other.is_best:
            break
        if not other.never_freed:
            return other
    return first


def _numbers(value: Any) -> list[int]:
    return [one for one in cast("tuple[Any, ...]", value) if isinstance(one, int)] if isinstance(value, tuple) else []


def _convert(value: Any) -> Any:
    if value is None:
        return ffi.NULL
    if isinstance(value, str):
        return constant(f"dnnl_{value}")
    if isinstance(value, (Descriptor, PrimitiveDescriptor)):
        return value.handle
    if isinstance(value, DataType):
        return type_number(value)
    return [_convert(one) for one in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value


def clear_primitives() -> None:
    """Drop every cached primitive descriptor; launches that hold theirs keep them."""
    with _lock:
        PRIMITIVES.clear()


def at_least(major: int, minor: int) -> bool:
    """Whether the loaded library is that version or a later one."""
    return version()[:2] >= (major, minor)
