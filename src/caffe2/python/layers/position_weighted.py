"""A learned weight for each position in lists."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer, get_categorical_limit
from caffe2.python.layers.tags import Tags

logger = logging.getLogger(__name__)


class PositionWeighted(ModelLayer):
    """For each entry of a list the weight of its position, which is one at the beginning."""

    def __init__(self, model: Any, input_record: Any, weight_optim: Any = None, name: str = "position_weights") -> None:
        """Add a layer; there are as many weights as lists may be long, or else as there are keys."""
        super().__init__(model, name, input_record)
        assert isinstance(input_record, schema.List), "Incorrect input type"
        lengths: Any = input_record.lengths
        known = lengths.metadata
        longest: Any = None if known is None else known.categorical_limit
        if longest is None:
            longest = get_categorical_limit(input_record)
            logger.warning("nobody says how long %s may be: the limit of its keys, %s", lengths(), longest)
        self.shape: int = longest
        self.pos_w = self.create_param("pos_w", [longest], ("ConstantFill", {"value": 1.0}), weight_optim)
        weights = schema.Scalar((np.float32, longest), self.get_next_blob_reference("pos_w_gather"))
        self.output_schema = schema.Struct(("position_weights", weights))
        self.tags.update({Tags.HANDLE_AS_SPARSE_LAYER})

    def get_memory_usage(self) -> int:
        """Return how many weights there are."""
        return self.shape

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        lengths = self.input_record.lengths()
        positions = net.LengthsRangeFill([lengths], lengths + "_pos_w_seq")
        net.Gather([self.pos_w, positions], self.output_schema.position_weights.field_blobs())
