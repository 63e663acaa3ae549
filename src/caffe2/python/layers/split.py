"""A record of one column, cut into several."""

from __future__ import annotations

from typing import Any

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class Split(ModelLayer):
    """Cuts along an axis: into equal parts, or into those of `split`."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        num_splits: int = 1,
        axis: int = 1,
        name: str = "split",
        split: Any = None,
        **kwargs: Any,
    ) -> None:
        """Add a layer; the axis counts rows as 0, which cannot be cut."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Scalar), (
            f"Incorrect input type. Expected Scalar, but received: {input_record}"
        )
        shape = list(input_record.field_type().shape)
        assert 0 < axis <= len(shape), f"axis should be > 0 and <= {len(shape)}, not {axis}"
        width = shape[axis - 1]
        assert split is not None or width % num_splits == 0, f"dim({width}) should be divisible by {num_splits}"
        widths = [width // num_splits] * num_splits if split is None else list(split)
        assert len(widths) == num_splits and sum(widths) == width, f"{num_splits} parts of {width}, not {widths}"
        self.axis = axis
        self.split = split
        parts = [(*shape[: axis - 1], one, *shape[axis:]) for one in widths]
        self.output_schema = schema.Tuple(
            *(
                schema.Scalar((input_record.field_type().base, part), self.get_next_blob_reference(f"output_{number}"))
                for number, part in enumerate(parts)
            )
        )

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        widths = {} if self.split is None else {"split": self.split}
        net.Split(self.input_record.field_blobs(), self.output_schema.field_blobs(), **widths, axis=self.axis)
