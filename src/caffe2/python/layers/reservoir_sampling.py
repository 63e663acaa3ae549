"""A sample of all rows that went by, each as likely to be in it as any other."""

from __future__ import annotations

from typing import Any

from caffe2.python import core, schema
from caffe2.python.layers.layers import ModelLayer


class ReservoirSampling(ModelLayer):
    """Keeps a sample of `num_to_collect` rows of the column `data`; records are packed to one column before.

    With a column `object_id` each object is there once at most, with what came first.
    """

    def __init__(
        self, model: Any, input_record: Any, num_to_collect: int, name: str = "reservoir_sampling", **kwargs: Any
    ) -> None:
        """Add a layer; the columns `reservoir`, `num_visited` and `mutex` go out."""
        super().__init__(model, name, input_record, **kwargs)
        assert num_to_collect > 0, f"num_to_collect = {num_to_collect} must be above 0"
        self.num_to_collect = num_to_collect
        zero = ("ConstantFill", {"value": 0, "dtype": core.DataType.INT64})
        self.reservoir = self.create_param("reservoir", [0], ("ConstantFill",), model.NoOptim)
        self.num_visited_blob = self.create_param("num_visited", [], zero, model.NoOptim)
        self.mutex = self.create_param("mutex", [], ("CreateMutex",), model.NoOptim)
        self.extra_input_blobs: list[Any] = []
        self.extra_output_blobs: list[Any] = []
        if "object_id" in input_record:
            # `valued_dtype` is how Caffe2 writes it; the operator does not know it, and its default is the same.
            kinds = {"key_dtype": core.DataType.INT64, "valued_dtype": core.DataType.INT32}
            places = self.create_param("object_to_pos", None, ("CreateMap", kinds), model.NoOptim)
            objects = self.create_param("pos_to_object", [0], zero, model.NoOptim)
            self.extra_input_blobs = [input_record.object_id(), places, objects]
            self.extra_output_blobs = [places, objects]
        self.output_schema = schema.Struct(
            ("reservoir", schema.from_blob_list(input_record.data, [self.reservoir])),
            ("num_visited", schema.Scalar(blob=self.num_visited_blob)),
            ("mutex", schema.Scalar(blob=self.mutex)),
        )

    def add_ops(self, net: Any) -> None:
        """Add the operator."""
        kept = [self.reservoir, self.num_visited_blob]
        net.ReservoirSampling(
            [*kept, self.input_record.data(), self.mutex, *self.extra_input_blobs],
            [*kept, *self.extra_output_blobs],
            num_to_collect=self.num_to_collect,
        )
