"""Blobs that are no tensors: FeedBlob makes one of bytes."""

from __future__ import annotations

from tazza.operator import Effects, OpView, arg, blob, forbidden, host_kernel, schema
from tazza.tensor import Blob

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
