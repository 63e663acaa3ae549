"""What the steps of a recurrent net left, for whoever wants to look: RecurrentNetworkBlobFetcher."""

from __future__ import annotations

import numpy as np

from tazza.operator import Effects, Operator, Role, arg, blob, forbidden, host_kernel, schema
from tazza.ops.recurrent.step import SCRATCH, StepWorkspaces
from tazza.tensor import Blob, DataType, Tensor

RECURRENT_NETWORK_BLOB_FETCHER = schema(
    "RecurrentNetworkBlobFetcher",
    """Copies each tensor of each step to `<prefix>_<name><number of the step>`; names are their names.

    Where nothing is kept for a gradient a few workspaces serve all steps, and have what the last ones left.""",
    inputs=[blob("step_workspaces", type_name=SCRATCH, role=Role.STATE, doc="the last output of RecurrentNetwork")],
    outputs=[blob("names", DataType.STRING, dynamic=True)],
    args=[arg("prefix", str, "rnn", doc="of the copies")],
    effects=Effects.WORKSPACE,
    no_gradient=forbidden("it copies, for people to look at"),
    source="Caffe2",
)


@host_kernel(RECURRENT_NETWORK_BLOB_FETCHER)
class RecurrentNetworkBlobFetcher:
    """Writes blobs whose names depend on what there is."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def run(self, step_workspaces: Blob, names: Blob) -> None:
        found: list[str] = []
        for number, step in enumerate(step_workspaces.get(StepWorkspaces).steps):
            for name in sorted(step.blobs):
                value = step.blobs[name].value
                if isinstance(value, Tensor) and value.allocated:
                    found.append(f"{self._operator.op.prefix}_{name}{number}")
                    self._operator.workspace.create_blob(found[-1]).tensor().assign(value.plain())
        names.set(Tensor.from_numpy(np.array([name.encode() for name in found], object)))
