"""What Caffe2 put into step nets at run time: rnn_internal_apply_link, rnn_internal_accumulate_gradient_input.

Here the operators that own step nets do both themselves (`step`, `recurrent_network`); nets that were written down with
these operators in them run all the same. A link is a view: both blobs lie on one memory.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Effects, OpView, Role, arg, blob, ends, host_kernel, schema
from tazza.ops.recurrent.step import view_rows
from tazza.ops.shape.axis import require_one_element
from tazza.tensor import Blob, DataType, TensorSpec

INT32 = frozenset({DataType.INT32})
TIMESTEP = blob("timestep", INT32, host=True, role=Role.INDEX, doc="one element, the number of the step")

APPLY_LINK = schema(
    "rnn_internal_apply_link",
    "internal = rows [timestep + offset, timestep + offset + window) of external, without a copy.",
    inputs=[TIMESTEP, blob("external", dims="T *D", role=Role.STATE)],
    outputs=[blob("internal", "external"), blob("linked", like="external")],
    args=[arg("offset", int, minimum=0, doc="row of step 0"), arg("window", int, minimum=0, doc="rows")],
    must_in_place={"linked": "external"},
    effects=Effects.WORKSPACE,
    private=True,
    no_gradient=ends("the backward step net has links of its own"),
    source="Caffe2",
)


@APPLY_LINK.infer
def apply_link_infer(op: OpView, timestep: TensorSpec, external: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    require_one_element(op, "timestep", timestep.dims)
    dims = None if external.dims is None else (op.window, *external.dims[1:])
    return TensorSpec(dims, external.dtype), TensorSpec(external.dims, external.dtype)


@host_kernel(APPLY_LINK)
def apply_link(op: OpView, timestep: Blob, external: Blob, internal: Blob) -> None:
    outer = external.tensor()
    outer.make_plain()
    row = _number(op, timestep) + op.offset
    internal.set(view_rows(outer, row, op.window, internal.name))


ACCUMULATE_GRADIENT_INPUT = schema(
    "rnn_internal_accumulate_gradient_input",
    """Row timestep + offset of gradients += row timestep of given.

    Outputs behind the first tell only who has to wait.""",
    inputs=[
        TIMESTEP,
        blob("given", FLOAT, "T *D", role=Role.DATA),
        blob("gradients", "given", "U *D", role=Role.STATE),
    ],
    outputs=[blob("sums", like="gradients"), blob("after", type_name="*", variadic=True, optional=True)],
    args=[arg("offset", int, minimum=0, doc="rows of gradients before that of step 0")],
    open_args=lambda name: name.startswith("rnn_dependency."),
    must_in_place={"sums": "gradients"},
    effects=Effects.STATE,
    private=True,
    no_gradient=ends("second derivatives are not built"),
    source="Caffe2",
)


@ACCUMULATE_GRADIENT_INPUT.infer
def accumulate_gradient_input_infer(
    op: OpView, timestep: TensorSpec, given: TensorSpec, gradients: TensorSpec
) -> tuple[TensorSpec | None, ...]:
    del given
    require_one_element(op, "timestep", timestep.dims)
    return TensorSpec(gradients.dims, gradients.dtype), *(None,) * (len(op.output_letters) - 1)


@host_kernel(ACCUMULATE_GRADIENT_INPUT)
def accumulate_gradient_input(op: OpView, timestep: Blob, given: Blob, gradients: Blob) -> None:
    step = _number(op, timestep)
    target = view_rows(gradients.tensor(), step + op.offset, 1, gradients.name)
    source = view_rows(given.tensor(), step, 1, given.name)
    np.add(source.array, target.array, out=target.array)


def _number(op: OpView, timestep: Blob) -> int:
    found = timestep.tensor().plain()
    require_one_element(op, "timestep", found.shape)
    return int(found.reshape(()))
