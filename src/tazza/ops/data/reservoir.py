"""A sample of all rows that were seen, each equally likely: ReservoirSampling. N rows are kept, B come in a batch."""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from tazza.device import Generator
from tazza.operator import Array, Effects, OpView, Role, Spec, arg, blob, forbidden, host_kernel, schema, together
from tazza.ops.control.mutex import MUTEX, Mutex
from tazza.ops.data.kept_rows import DATA, ROWS, check_count, kept_blob, kept_spec, put_rows, require_alike, rows_of
from tazza.ops.data.packed_records import PackedRecords
from tazza.ops.sparse.key_map import key_map, stored_name
from tazza.tensor import Blob, DataType, TensorSpec

MAP = stored_name((DataType.INT64, DataType.INT32))

RESERVOIR_SAMPLING = schema(
    "ReservoirSampling",
    """sample = N of all rows of DATA, or of all its packed records, that were seen.

    The first N are kept; from then on row n (from 0) takes the place of one of these with probability N / (n + 1). With
    `object_id` a row is passed over, and not counted, whose object is in the sample, or in DATA before it; `places` and
    `objects` tell which object has which place.

    A sample of packed records that was read from a file begins anew, as in Caffe2, which stores no fields of them.""",
    inputs=[
        kept_blob("reservoir", "sample"),
        blob("num_visited", DataType.INT64, role=Role.STATE, doc="rows that were seen, one element; 0 at first"),
        DATA,
        blob("mutex", type_name=MUTEX, role=Role.STATE, doc="held meanwhile"),
        blob("object_id", DataType.INT64, optional=True, role=Role.DATA, doc="of each row"),
        blob("places_in", type_name=MAP, optional=True, role=Role.STATE, doc="without keys at first"),
        blob("objects_in", DataType.INT64, optional=True, role=Role.STATE, doc="a tensor without elements at first"),
    ],
    outputs=[
        blob("sample", type_name=ROWS, dynamic=True),
        blob("visited", DataType.INT64),
        blob("places", type_name=MAP, optional=True),
        blob("objects", DataType.INT64, optional=True, dynamic=True),
    ],
    must_in_place={
        "sample": "reservoir",
        "visited": "num_visited",
        "places": "places_in",
        "objects": "objects_in",
    },
    relations=[together("object_id", "places_in", "objects_in", "places", "objects")],
    args=[arg("num_to_collect", int, minimum=1, doc="N")],
    effects=Effects.STATE,
    no_gradient=forbidden("data has no gradient"),
    source="Vitter 1985, algorithm R",
    example="""
    >>> rows, mutex = [1, 2, 3], run("CreateMutex")
    >>> run("ReservoirSampling", np.zeros(0, np.int32), np.array([0]), rows, mutex, num_to_collect=5, outputs=2)
    (array([1, 2, 3], dtype=int32), array([3]))
    """,
)


@RESERVOIR_SAMPLING.infer
def reservoir_sampling_infer(op: OpView, **specs: Spec) -> tuple[Spec | None, ...]:
    sample = kept_spec(op, "reservoir", specs["reservoir"], specs["DATA"])
    found = (sample, specs["num_visited"], None, TensorSpec((None,), DataType.INT64))
    return found[: len(op.output_letters)]


@host_kernel(RESERVOIR_SAMPLING)
def reservoir_sampling(
    op: OpView,
    random: Generator,
    sample: Blob,
    visited: Blob,
    DATA: Blob,
    mutex: Blob,
    object_id: Blob | None,
    places: Blob | None,
    objects: Blob | None,
) -> None:
    rows = rows_of(DATA)
    with mutex.get(Mutex):
        if isinstance(sample.value, PackedRecords) and sample.value.restored:
            _begin_anew(sample, visited, objects)
        kept, counted = rows_of(sample), visited.tensor().plain()
        _check(op, kept, counted, rows)
        ids = None if object_id is None else object_id.tensor().plain().reshape(-1).tolist()
        held = [] if objects is None else objects.tensor().plain().reshape(-1).tolist()
        if ids is not None:
            op.require(len(ids) == len(rows), f"object_id has {len(ids)} elements for {len(rows)} rows of DATA")
            op.require(len(held) == len(kept), f"objects_in has {len(held)} elements for {len(kept)} rows")
        taken, seen = _draw(op, random, int(counted.reshape(-1)[0]), len(rows), held, ids)
        if taken:
            order = sorted(taken)
            put_rows(sample, np.array(order), rows[[taken[place] for place in order]], DATA)
        visited.tensor().assign(np.full_like(counted, seen))
        if places is not None and objects is not None:
            objects.tensor().assign(np.array(held, np.int64))
            places.set(key_map(np.array(held, np.int64), np.arange(len(held), dtype=np.int32)))


def _begin_anew(sample: Blob, visited: Blob, objects: Blob | None) -> None:
    sample.set(PackedRecords(()))
    visited.tensor().assign(np.zeros_like(visited.tensor().plain()))
    if objects is not None:
        objects.tensor().assign(np.zeros(0, np.int64))


def drawn_place(op: OpView, random: Generator, seen: int) -> int | None:
    """Return which of `num_to_collect` places the next one has, behind `seen` others; None where it is not kept."""
    place = seen if seen < op.num_to_collect else int(random.integers(1, 0, seen)[0])
    return place if place < op.num_to_collect else None


def _draw(
    op: OpView, random: Generator, seen: int, B: int, held: list[int], ids: list[int] | None
) -> tuple[dict[int, int], int]:
    """Return which of the B new rows come to which places, and how many were seen.

    `held`, the object of each place, changes with them.
    """
    taken: dict[int, int] = {}
    there = set(held)
    first = {own: n for n, own in reversed(list(enumerate(range(B) if ids is None else ids)))}
    for own, n in sorted(first.items(), key=itemgetter(1)):
        if ids is not None and own in there:
            continue
        place = drawn_place(op, random, seen)
        seen += 1
        if place is None:
            continue
        taken[place] = n
        if ids is not None:
            held[place : place + 1] = [own]
    return taken, seen


def _check(op: OpView, kept: Array, counted: Array, rows: Array) -> None:
    """Check that a sample and what was counted are what this operator leaves, for such rows."""
    op.require(rows.ndim > 0, "DATA has rank 0, it has rows")
    op.require(counted.size == 1, f"num_visited has {counted.size} elements, it has one")
    op.require(kept.ndim > 0, "reservoir has rank 0, it has rows")
    seen, M = int(counted.reshape(-1)[0]), len(kept)
    op.require(
        M == min(seen, op.num_to_collect), f"reservoir has {M} rows, {seen} of at most {op.num_to_collect} were seen"
    )
    check_count(op, seen, rows)
    require_alike(op, "reservoir", kept, rows)
