"""Which blobs there are: GetAllBlobNames."""

from __future__ import annotations

import numpy as np

from tazza.operator import BlobOwner, Effects, OpView, arg, blob, host_kernel, not_written, schema
from tazza.tensor import Blob, DataType, TensorSpec

GET_ALL_BLOB_NAMES = schema(
    "GetAllBlobNames",
    "names = those of the blobs of the workspace, sorted, `names` itself included.",
    outputs=[blob("names", DataType.STRING, "N", host=True)],
    args=[arg("include_shared", bool, True, doc="whether those count that it has from others: its parent, bindings")],
    effects=Effects.WORKSPACE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("GetAllBlobNames")
    array([b'out0'], dtype=object)
    """,
)


@GET_ALL_BLOB_NAMES.infer
def get_all_blob_names_infer(op: OpView) -> TensorSpec:
    del op
    return TensorSpec((None,), DataType.STRING)


@host_kernel(GET_ALL_BLOB_NAMES)
def get_all_blob_names(op: OpView, workspace: BlobOwner, names: Blob) -> None:
    found = workspace.blob_names(shared=op.include_shared)
    names.tensor().assign(np.array([name.encode() for name in found], object))
