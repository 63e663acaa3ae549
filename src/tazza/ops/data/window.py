"""The last rows of all batches: LastNWindowCollector. N rows are kept, M are there, B come in a batch."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np

from tazza.operator import Array, Effects, OpView, Role, Spec, arg, blob, forbidden, host_kernel, schema
from tazza.ops.control.mutex import MUTEX, Mutex
from tazza.ops.data.kept_rows import DATA, ROWS, check_count, kept_blob, kept_spec, put_rows, require_alike, rows_of
from tazza.tensor import Blob, DataType, TensorSpec

LAST_N_WINDOW_COLLECTOR = schema(
    "LastNWindowCollector",
    """last = the last N rows, or packed records, of all DATA that was seen.

    They lie in a ring: the next one goes to place next_out. As long as there are less than N they lie in order. The N
    last rows of a larger DATA begin the ring anew.""",
    inputs=[
        kept_blob("buffer", "ring"),
        blob("next", DataType.INT32, "", role=Role.STATE, doc="0 at first"),
        DATA,
        blob("mutex", type_name=MUTEX, optional=True, role=Role.STATE, doc="held meanwhile"),
        blob("num_visited", DataType.INT64, optional=True, role=Role.STATE, doc="rows that were seen, one element"),
    ],
    outputs=[
        blob("last", type_name=ROWS, dynamic=True),
        blob("next_out", DataType.INT32, ""),
        blob("num_visited_out", DataType.INT64, optional=True),
    ],
    must_in_place={"last": "buffer", "next_out": "next", "num_visited_out": "num_visited"},
    args=[arg("num_to_collect", int, minimum=1, doc="N")],
    effects=Effects.STATE,
    no_gradient=forbidden("data has no gradient"),
    source="Caffe2",
    example="""
    >>> buffer, place = np.array([1, 2, 3], np.int32), np.array(0, np.int32)
    >>> run("LastNWindowCollector", buffer, place, [4, 5], num_to_collect=3, outputs=2)
    (array([4, 5, 3], dtype=int32), array(2, dtype=int32))
    """,
)


@LAST_N_WINDOW_COLLECTOR.infer
def last_n_window_collector_infer(
    op: OpView,
    buffer: Spec,
    next: TensorSpec,
    DATA: Spec,
    mutex: object = None,
    num_visited: TensorSpec | None = None,
) -> tuple[Spec | None, ...]:
    del mutex
    found = (kept_spec(op, "buffer", buffer, DATA), TensorSpec((), DataType.INT32))
    return found if num_visited is None else (*found, num_visited)


@host_kernel(LAST_N_WINDOW_COLLECTOR)
def last_n_window_collector(
    op: OpView, last: Blob, next_out: Blob, DATA: Blob, mutex: Blob | None, num_visited_out: Blob | None
) -> None:
    rows, count = rows_of(DATA), op.num_to_collect
    op.require(rows.ndim > 0, "DATA has rank 0, it has rows")
    with nullcontext() if mutex is None else mutex.get(Mutex):
        ring, place = rows_of(last), int(next_out.tensor().plain().reshape(-1)[0])
        _check(op, ring, place, rows)
        if num_visited_out is not None:
            seen = num_visited_out.tensor().plain()
            op.require(seen.size == 1, f"num_visited has {seen.size} elements, it has one")
            check_count(op, int(seen.reshape(-1)[0]), rows)
            num_visited_out.tensor().assign(seen + len(rows))
        if not len(rows):
            return
        place, rows = (0, rows[-count:]) if len(rows) > count else (place, rows)
        put_rows(last, (place + np.arange(len(rows))) % count, rows, DATA)
        next_out.tensor().assign(np.array((place + len(rows)) % count, np.int32))


def _check(op: OpView, ring: Array, place: int, rows: Array) -> None:
    """Check that a ring and the place of its next row are what this operator leaves, for such rows."""
    op.require(ring.ndim > 0, "buffer has rank 0, it has rows")
    M, N = len(ring), op.num_to_collect
    op.require(M <= N, f"buffer has {M} rows, num_to_collect is {N}")
    wanted = f"it is {M % N}" if M < N else f"it is in [0, {N})"
    op.require(place == M if M < N else 0 <= place < N, f"next is {place}, with {M} of {N} rows {wanted}")
    require_alike(op, "buffer", ring, rows)
