"""Blobs as they are: DataCouple hands several on together, FeedBlob makes one of bytes."""

from __future__ import annotations

from tazza.operator import Effects, OpView, arg, blob, each, forbidden, host_kernel, not_written, schema
from tazza.tensor import Blob

DATA_COUPLE = schema(
    "DataCouple",
    "Y = X, or the first ones of X: who reads one of them runs when all of them are there.",
    inputs=[blob("X", type_name="*", variadic=True)],
    outputs=[blob("Y", type_name="*", variadic=True)],
    must_in_place={"Y": each("X")},
    effects=Effects.STATE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("DataCouple", [1.0, 2.0], [3], outputs=2)
    (array([1., 2.], dtype=float32), array([3], dtype=int32))
    """,
)


@host_kernel(DATA_COUPLE)
def data_couple(Y: tuple[Blob, ...]) -> None:
    del Y  # they stay as they are


FEED_BLOB = schema(
    "FeedBlob",
    "Y = `value`, as a string, whatever it held.",
    outputs=[blob("Y", type_name="std::string")],
    args=[arg("value", bytes, doc="the bytes")],
    effects=Effects.STATE,
    no_gradient=forbidden("a string has no derivative"),
    source="Caffe2",
    example="""
    >>> run("FeedBlob", value="text")
    b'text'
    """,
)


@host_kernel(FEED_BLOB)
def feed_blob(op: OpView, Y: Blob) -> None:
    Y.set(op.value)
