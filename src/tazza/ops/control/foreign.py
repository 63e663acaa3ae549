"""Operators that run nowhere: of libraries that tazza does not have, and one that Caffe2 declared and never wrote.

Nets that name them can be read, shown and rewritten; a run ends with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.errors import UnavailableError
from tazza.operator import (
    ArgSpec,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    family,
    host_kernel,
    not_written,
    schema,
)


def unavailable(made: OpSchema, reason: str, hint: str) -> OpSchema:
    """Let an operator say in each run why it cannot, and return its schema."""
    made.foreign = reason

    @host_kernel(made)
    def refuse(op: OpView) -> None:
        raise op.error(UnavailableError, reason, hint)

    return made


@dataclass(frozen=True, slots=True)
class Foreign:
    """What did the work, and what to do instead."""

    doc: str
    reason: str
    hint: str
    args: Sequence[ArgSpec] = ()


@family(
    {
        "ATen": Foreign(
            "Y = what the function `operator` of PyTorch gives for X and for further arguments.",
            "its function is one of PyTorch, which tazza does not call",
            "write it with operators, or as a Python operator",
            (
                arg("operator", str, "", doc="name of the function"),
                arg("overload_name", str, "", doc="which of several functions of that name"),
            ),
        ),
        "Onnxifi": Foreign(
            "Y = what a model in the ONNX format gives for X, on a device with a library of its maker.",
            "its model runs on a device by a library of its maker, for which tazza has no interface",
            "take the net that the model was made of",
            (
                arg("onnx_model", str, "", doc="the serialized model"),
                arg("initializers", list[str], [], doc="inputs of the model and the blobs that they are"),
                arg("output_resize_hints", list[int], [], doc="how extents of outputs follow from inputs"),
            ),
        ),
        "Caffe2ModuleTestDynamicDummy": Foreign(
            "Does nothing: it was there to show that a module was loaded.",
            "it belongs to a compiled module of Caffe2's own tests",
            "modules of tazza are loaded by `tazza.runtime.modules`",
        ),
        "TTLinearGradient": Foreign(
            "The gradient of TT.",
            "Caffe2 declared it and never wrote it: it failed there whatever it was given",
            "write the product with operators that have gradients",
        ),
    }
)
def foreigners(type: str, row: Foreign) -> OpSchema:
    """An operator that says why it cannot run."""
    made = schema(
        type,
        f"""{row.doc}

        It cannot run here: {row.reason}.""",
        inputs=[blob("X", type_name="*", optional=True, variadic=True, role=Role.DATA)],
        outputs=[blob("Y", type_name="*", optional=True, variadic=True)],
        args=row.args,
        effects=Effects.IO,
        no_gradient=not_written("Caffe2 has none either"),
        source="Caffe2",
    )

    return unavailable(made, row.reason, row.hint)
