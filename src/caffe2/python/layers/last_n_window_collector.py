"""The last rows that went by."""

from __future__ import annotations

from typing import Any

from caffe2.python import core, schema
from caffe2.python.layers.layers import ModelLayer


class LastNWindowCollector(ModelLayer):
    """Keeps the last `num_to_collect` rows of a column; records are packed to one column before."""

    def __init__(
        self, model: Any, input_record: Any, num_to_collect: int, name: str = "last_n_window_collector", **kwargs: Any
    ) -> None:
        """Add a layer on a column; the columns `last_n`, `num_visited` and `mutex` go out."""
        super().__init__(model, name, input_record, **kwargs)
        assert num_to_collect > 0, f"num_to_collect = {num_to_collect} must be above 0"
        self.num_to_collect = num_to_collect
        assert isinstance(input_record, schema.Scalar), f"Got {input_record!r}"
        zero = [("ConstantFill", {"value": 0, "dtype": kind}) for kind in (core.DataType.INT32, core.DataType.INT64)]
        self.last_n = self.create_param("last_n", [0], ("ConstantFill", {}), model.NoOptim)
        self.next_blob = self.create_param("next", [], zero[0], model.NoOptim)
        self.mutex = self.create_param("mutex", [], ("CreateMutex",), model.NoOptim)
        self.num_visited_blob = self.create_param("num_visited", [], zero[1], model.NoOptim)
        self.output_schema = schema.Struct(
            ("last_n", schema.from_blob_list(input_record, [self.last_n])),
            ("num_visited", schema.Scalar(blob=self.num_visited_blob)),
            ("mutex", schema.Scalar(blob=self.mutex)),
        )

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        kept = [self.last_n, self.next_blob]
        net.LastNWindowCollector(
            [*kept, self.input_record(), self.mutex, self.num_visited_blob],
            [*kept, self.num_visited_blob],
            num_to_collect=self.num_to_collect,
        )
