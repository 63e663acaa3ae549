"""The columns of a record, side by side in one."""

from __future__ import annotations

import logging
from typing import Any

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer

logger = logging.getLogger(__name__)


class Concat(ModelLayer):
    """Joins columns along an axis, or with `add_axis` along a new one."""

    def __init__(
        self, model: Any, input_record: Any, axis: int = 1, add_axis: int = 0, name: str = "concat", **kwargs: Any
    ) -> None:
        """Add a layer; the axis counts rows as 0, which cannot be joined."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Struct), (
            f"Incorrect input type. Expected Struct, but received: {input_record}"
        )
        assert axis >= 1, f"axis {axis} should >= 1."
        self.axis = axis
        self.add_axis = add_axis
        columns = input_record.field_types()
        shapes = [list(column.shape) for column in columns]
        if add_axis:
            shapes = [[*shape[: axis - 1], 1, *shape[axis - 1 :]] for shape in shapes]
        rests = {(*shape[: axis - 1], None, *shape[axis:]) for shape in shapes}
        assert all(axis <= len(shape) for shape in shapes), (
            f"Concat expects that limited dimensions of the input tensor: {shapes}"
        )
        assert len(rests) == 1, f"columns that are joined differ along axis {axis} only, not {shapes}"
        joined = [*shapes[0][: axis - 1], sum(shape[axis - 1] for shape in shapes), *shapes[0][axis:]]
        self.output_schema = schema.Scalar((columns[0].base, tuple(joined)), self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        (output,) = self.output_schema.field_blobs()
        net.Concat(
            self.input_record.field_blobs(), [output, f"{output}_concat_dims"], axis=self.axis, add_axis=self.add_axis
        )
