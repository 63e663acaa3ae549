"""The columns of a record, side by side in one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer

logger = logging.getLogger(__name__)


def get_concatenated_feature_to_index(blobs_to_concat: Sequence[Any]) -> dict[Any, list[int]] | None:
    """Return where features lie in columns side by side, from where they lie in each; None where nobody knows.

    >>> known = schema.Metadata(feature_specs=schema.FeatureSpec(feature_to_index={7: [0, 1]}))
    >>> columns = [schema.Scalar((float, (3,))), schema.Scalar((float, (2,)), metadata=known)]
    >>> get_concatenated_feature_to_index(columns)
    {7: [3, 4]}
    """
    found: dict[Any, list[int]] = {}
    width = 0
    for column in blobs_to_concat:
        features = None if column.metadata is None else column.metadata.feature_specs
        known: dict[Any, list[int]] = {} if features is None else features.feature_to_index or {}
        for feature, places in known.items():
            found.setdefault(feature, []).extend(width + place for place in places)
        width += column.dtype.shape[0]
    return found or None


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
        output = self.get_next_blob_reference("output")
        self.output_schema = schema.Scalar((columns[0].base, tuple(joined)), output)
        if axis == 1 and not add_axis:
            places = get_concatenated_feature_to_index(input_record.all_scalars())
            if places is not None:
                known = schema.Metadata(feature_specs=schema.FeatureSpec(feature_to_index=places))
                self.output_schema.set_metadata(known)

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        (output,) = self.output_schema.field_blobs()
        net.Concat(
            self.input_record.field_blobs(), [output, f"{output}_concat_dims"], axis=self.axis, add_axis=self.add_axis
        )
