"""Which operators of a region run for a few images at a time, so that what is between them stays in the cache.

A chain of operators over a large batch writes every intermediate blob to memory and reads it again, where the cache
would hold those of a few images. Where each image goes its own way (`OpSchema.batched_inputs`), a range of operators
can run for images 0 and 1, then for 2 and 3, and so on, on one small piece of memory. That costs more launches, and
filters are read again from the cache each time.

Ranges and their numbers of images are those of the least estimated time: dynamic programming over the operators, where
an operator takes as long as its arithmetic or as the bytes that it moves from and to memory, whatever takes longer, and
more slices take more launches and more reading of filters.

What it wins (16 images, 2 cores with AVX-512, beside plans without it): SqueezeNet takes 0.89 of the time and 112 for
155 MiB, ResNet-50 0.91, MobileNetV2 0.98, GoogLeNet 0.99.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise

from tazza.data_class import dataclass
from tazza.errors import TazzaError
from tazza.operator import Array, OpSchema, OpView, Spec, find_schema
from tazza.operator.images import batched_letters
from tazza.operator.schema import logical
from tazza.proto import OperatorDef
from tazza.runtime.cache import remembered
from tazza.runtime.flags import flag
from tazza.runtime.machine import machine
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec

CACHE_KB = flag(
    "plan_slice_kb",
    8192,
    "kilobytes that planned operators may read and write at a time, where they can take a few images; 0: no limit",
    minimum=0,
    kernels=True,
)
MEMORY_SHARE, CACHE_SHARE, COMPUTE_SHARE = 0.55, 0.67, 0.31
"""Parts of the rates of the machine that operators reach."""
LAUNCH_NS = 4000.0
"""What it costs to begin a kernel on all threads."""
SLOWER = 1.15
"""How much longer kernels take over a few images at a time, at the most: they like large batches better."""
WORTH_NS = 200_000.0
"""What must be won at the least."""
TRIED = 1 << 16
"""Numbers of images that are tried as divisors of a batch."""


@dataclass(frozen=True, slots=True)
class Slicing:
    """Operators `first` to `last` - 1 of a region run for `images` images at a time, `count` times.

    `taken` are the blobs with a batch that they read from outside, `given` those that are read afterwards.
    """

    first: int
    last: int
    images: int
    count: int
    taken: tuple[str, ...]
    given: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Blob:
    """One value of a name: who wrote it (-1: it was there before), who reads it last."""

    name: str
    nbytes: int
    batch: int | None
    producer: int
    last: float = -1


@dataclass(slots=True, eq=False)
class _Op:
    """What one operator reads and writes; `batch` is None where it cannot run on a part of the images."""

    batch: int | None = None
    compute_ns: float = 0.0
    inputs: list[_Blob] = field(default_factory=list[_Blob])
    outputs: list[_Blob] = field(default_factory=list[_Blob])
    others: list[_Blob] = field(default_factory=list[_Blob])


def find_slicings(
    ops: Sequence[OperatorDef],
    specs: Mapping[str, TensorSpec],
    outputs: frozenset[str],
    read: Callable[[str], Array | None],
) -> tuple[Slicing, ...]:
    """Return the ranges of a region that are worth while, in order.

    Args:
        ops: the operators of the region.
        specs: spec of each blob that it reads.
        outputs: blobs whose last value is needed afterwards.
        read: returns the value of an input where inference needs one.
    """
    cache = CACHE_KB.value << 10
    if cache <= 0:
        return ()
    try:
        found = _look(ops, specs, outputs, read)
    except TazzaError:  # compiling says what is wrong
        return ()
    if all(op.batch is None or sum(blob.nbytes for blob in (*op.inputs, *op.outputs)) <= cache for op in found):
        return ()
    return tuple(_slicing(found, *cut) for cut in _cheapest(found, cache))


# -- what the operators do ---------------------------------------------------------------------------------------------


def _look(
    ops: Sequence[OperatorDef],
    specs: Mapping[str, TensorSpec],
    outputs: frozenset[str],
    read: Callable[[str], Array | None],
) -> list[_Op]:
    known: dict[str, Spec | None] = dict(specs)
    current = {name: _blob(name, spec, -1) for name, spec in specs.items()}
    found: list[_Op] = []
    for position, definition in enumerate(ops):
        schema = find_schema(definition.type)
        op = schema.view(definition)
        taken = [known[name] for name in definition.input]

        def value(letter: str, op: OpView = op) -> Array | None:
            name = op.input_name(letter)
            return read(name) if current[name].producer < 0 else None

        inferred = schema.infer_specs(op, [None if spec is None else logical(spec) for spec in taken], value)
        reads = [current[name] for name in definition.input]
        for blob in reads:
            blob.last = position
        writes = [_blob(name, spec, position) for name, spec in zip(definition.output, inferred.specs, strict=True)]
        known.update(zip(definition.output, inferred.specs, strict=True))
        current.update(zip(definition.output, writes, strict=True))
        found.append(_operator(schema, op, (taken, inferred.specs), (reads, writes)))
        if found[-1].batch is not None:
            cost = schema.infer_cost(op, taken, [spec for spec in inferred.specs if spec is not None])
            found[-1].compute_ns = cost.flops / (COMPUTE_SHARE * machine().flops_per_ns * thread_count())
    for name in outputs:
        if name in current:
            current[name].last = math.inf
    return found


def _blob(name: str, spec: Spec | None, producer: int) -> _Blob:
    if not isinstance(spec, TensorSpec) or not spec.shape_known:
        return _Blob(name, 0, None, producer)
    return _Blob(name, spec.nbytes, spec.shape[0] if len(spec.shape) > 1 else None, producer)


def _operator(
    schema: OpSchema,
    op: OpView,
    specs: tuple[Sequence[Spec | None], Sequence[Spec | None]],
    blobs: tuple[Sequence[_Blob], Sequence[_Blob]],
) -> _Op:
    """Return what an operator does; it can be sliced where all that it writes has the batch of all that it reads."""
    (reads, writes), letters = blobs, batched_letters(schema, op, specs)
    made = _Op()
    for letter, blob in zip(op.input_letters, reads, strict=True):
        (made.inputs if letter in letters else made.others).append(blob)
    made.outputs = list(writes)
    batches = {blob.batch for blob in (*made.inputs, *writes[:1])}
    overwrites = any(blob.producer < 0 and blob.name in op.definition.output for blob in reads)
    if made.inputs and len(batches) == 1 and not overwrites:
        (made.batch,) = batches
    return made


# -- the cheapest cuts -------------------------------------------------------------------------------------------------

_Cut = tuple[int, int, int]
"""First operator, the one behind the last, images at a time."""


def _cheapest(ops: Sequence[_Op], cache: int) -> list[_Cut]:
    """Return the ranges that run in slices."""
    best: list[tuple[float, _Cut | None]] = [(0.0, None), *[(math.inf, None)] * len(ops)]
    plain = 0.0
    for first, op in enumerate(ops):
        before = best[first][0]
        moved = sum(_read(blob, cache) for blob in op.inputs) + sum(_written(blob, cache) for blob in op.outputs)
        whole = max(op.compute_ns, moved)
        plain += whole
        if before + whole < best[first + 1][0]:
            best[first + 1] = before + whole, (first, first + 1, 0)
        for images in divisors(op.batch):
            for last, cost in _ranges(ops, first, images, cache):
                if before + cost < best[last][0]:
                    best[last] = before + cost, (first, last, images)
    if plain - best[-1][0] < WORTH_NS:
        return []
    cuts: list[_Cut] = []
    end = len(ops)
    while end:
        cut = best[end][1]
        assert cut is not None, "each operator can stand alone"
        if cut[2]:
            cuts.append(cut)
        end = cut[0]
    return cuts[::-1]


@remembered("divisors of batches", entries=64)
def divisors(batch: int | None) -> list[int]:
    """Return divisors of a batch below itself, the largest up to each power of two.

    Of batches over the square of `TRIED` some are left out: nobody slices those.

    >>> divisors(24)
    [1, 3, 6, 12]
    """
    if batch is None:
        return []
    small = [images for images in range(1, min(math.isqrt(batch), TRIED) + 1) if batch % images == 0]
    found = sorted({*small, *(batch // images for images in small)})
    return [one for one, larger in pairwise(found) if one.bit_length() != larger.bit_length() or larger == batch]


def _ranges(ops: Sequence[_Op], first: int, images: int, cache: int) -> Iterator[tuple[int, float]]:
    """Yield the end and the cost, in nanoseconds, of each range from `first` on that can run so many images at a time.

    What stays within a range costs nothing where the images of a slice fit the cache. Whether a blob stays is not known
    before its last reader is reached: until then it counts as written to memory.
    """
    batch = ops[first].batch
    assert batch is not None, "it has divisors"
    share, again = images / batch, batch // images - 1
    moved, leaving, total = list[float](), list[_Blob](), 0.0
    parts, wholes = set[_Blob](), set[_Blob]()
    for last in range(first + 1, len(ops) + 1):
        op = ops[last - 1]
        parts.update(blob for blob in op.inputs if blob.producer < first)
        wholes.update(op.others)
        if not _joins(op, batch, first) or parts & wholes:
            return
        fits = sum(blob.nbytes for blob in (*op.inputs, *op.outputs)) * share <= cache
        moved.append(
            sum(_read(blob, cache) for blob in op.inputs if blob.producer < first or not fits)
            + sum(_written(blob, cache) for blob in op.outputs)
        )
        total += max(op.compute_ns, moved[-1])
        total += again * (
            LAUNCH_NS + sum(blob.nbytes for blob in op.others) / (CACHE_SHARE * machine().cache_bytes_per_ns)
        )
        if fits:
            leaving += op.outputs
        for blob in leaving:
            if blob.last < last:
                producer, compute_ns = blob.producer - first, ops[blob.producer].compute_ns
                total -= max(compute_ns, moved[producer])
                moved[producer] -= _written(blob, cache)
                total += max(compute_ns, moved[producer])
        leaving = [blob for blob in leaving if blob.last >= last]
        yield last, SLOWER * total


def _joins(op: _Op, batch: int, first: int) -> bool:
    """Whether an operator can be in a range.

    It takes the same batch; what it reads for every image was there before; what it writes has the batch, or is unread.
    """
    return (
        op.batch == batch
        and all(blob.producer < first for blob in op.others)
        and all(blob.batch == batch or blob.last < 0 for blob in op.outputs)
    )


def _read(blob: _Blob, cache: int) -> float:
    """Return the time of reading a whole blob, from memory where the cache does not hold it beside another one."""
    return blob.nbytes / (MEMORY_SHARE * machine().memory_bytes_per_ns) if 2 * blob.nbytes > cache else 0.0


def _written(blob: _Blob, cache: int) -> float:
    """Return the time of writing a whole blob; lines are read before they are written."""
    return 2 * _read(blob, cache)


def _slicing(ops: Sequence[_Op], first: int, last: int, images: int) -> Slicing:
    inside = ops[first:last]
    taken = dict.fromkeys(blob.name for op in inside for blob in op.inputs if blob.producer < first)
    given = dict.fromkeys(blob.name for op in inside for blob in op.outputs if blob.last >= last)
    batch = inside[0].batch
    assert batch is not None, "only such operators are in ranges"
    return Slicing(first, last, images, batch // images, tuple(taken), tuple(given))
