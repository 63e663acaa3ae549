"""Rows that are kept from run to run, of a tensor or packed records: what they are, and how new ones take places."""

from __future__ import annotations

from tazza.errors import DTypeError, NumericError
from tazza.operator import Array, BlobSpec, OpView, Role, Spec, blob
from tazza.ops.data.data_set import extend
from tazza.ops.data.packed_records import PACKED, PackedRecords
from tazza.tensor import Blob, Tensor, TensorSpec

ROWS = ("Tensor", PACKED)
"""What rows are of."""
DATA = blob("DATA", type_name=ROWS, role=Role.DATA, doc="(B, *S), or B packed records")


def kept_blob(letter: str, name: str) -> BlobSpec:
    """Return the declaration of rows that are kept."""
    start = "a tensor without rows at first"
    return blob(letter, type_name=ROWS, role=Role.STATE, doc=f"(M, *S) the {name}, or M packed records; {start}")


def kept_spec(op: OpView, letter: str, kept: Spec, rows: Spec) -> Spec:
    """Return what is kept once rows have come: of their kind.

    Raises:
        DTypeError: rows of another kind are kept already.
    """
    if not isinstance(rows, TensorSpec):
        if isinstance(kept, TensorSpec) and kept.dims is not None and tuple(kept.dims[:1]) not in ((0,), (None,)):
            raise op.error(DTypeError, f"{letter} is {kept}, DATA holds packed records")
        return rows
    if not isinstance(kept, TensorSpec):
        raise op.error(DTypeError, f"{letter} holds packed records, DATA is {rows}")
    return TensorSpec(None if rows.dims is None else (None, *rows.dims[1:]), rows.dtype)


def rows_of(one: Blob) -> Array:
    """Return the rows of a blob; packed records as objects."""
    return one.value.column() if isinstance(one.value, PackedRecords) else one.tensor().plain()


def put_rows(kept: Blob, places: Array, rows: Array, like: Blob) -> None:
    """Write rows of `like` to places of a blob; those that it does not have yet follow its last one, in this order."""
    if isinstance(like.value, PackedRecords):
        before = kept.value.records if isinstance(kept.value, PackedRecords) else ()
        whole = list(before)
        for place, record in zip(places.tolist(), rows.tolist(), strict=True):
            whole[place : place + 1] = [record]
        kept.set(PackedRecords(tuple(whole)))
        return
    _place_rows(kept.tensor(), places, rows)


def _place_rows(tensor: Tensor, places: Array, rows: Array) -> None:
    there = places < tensor.shape[0]
    if there.any():
        if tensor.place.is_host and tensor.storage.share_count == 1:
            tensor.array[places[there]] = rows[there]
            tensor.mark_written()
        else:
            whole = tensor.plain().copy()
            whole[places[there]] = rows[there]
            tensor.assign(whole)
    if not there.all():
        extend(tensor, rows[~there])


def require_alike(op: OpView, letter: str, kept: Array, rows: Array) -> None:
    """Check that rows which are kept, if there are any, and those of DATA are of one shape and element type."""
    if not len(kept) or not len(rows):
        return
    op.require(kept.shape[1:] == rows.shape[1:], f"rows of {letter} {kept.shape} and DATA {rows.shape} differ")
    if kept.dtype != rows.dtype:
        raise op.error(DTypeError, f"{letter} is {kept.dtype}, DATA is {rows.dtype}")


def check_count(op: OpView, seen: int, rows: Array) -> None:
    """Check that rows can be counted on behind those that were seen."""
    if seen > 2**63 - 1 - len(rows):
        raise op.error(NumericError, f"num_visited is {seen}, with {len(rows)} more it would leave the 64 bits")
