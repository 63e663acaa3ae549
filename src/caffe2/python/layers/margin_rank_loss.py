"""Hinge loss of pairs: what is liked is to score above what is not, by a margin."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers.bpr_loss import PAIRS, tiled_pairs
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.layers.tags import Tags


class MarginRankLoss(ModelLayer):
    """The sum, or the mean, of max(n - p + margin, 0) over all scores n in the lists of rows with the score p."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "margin_rank_loss",
        margin: float = 0.1,
        average_loss: bool = False,
        **kwargs: Any,
    ) -> None:
        """Add a layer on the columns `pos_prediction` and `neg_prediction`."""
        super().__init__(model, name, input_record, **kwargs)
        assert margin >= 0, "For hinge loss, margin should be no less than 0"
        self._margin, self._average_loss = margin, average_loss
        assert schema.is_schema_subset(PAIRS, input_record), f"{input_record} is not {PAIRS}"
        self.tags.update([Tags.EXCLUDE_FROM_PREDICTION])
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        negative, positive = tiled_pairs(net, self.input_record)
        first = net.ConstantFill(negative, net.NextScopedBlob("const_1"), value=1, dtype=core.DataType.INT32)
        loss = net.MarginRankingCriterion(
            [positive, negative, first], net.NextScopedBlob("rank_loss"), margin=self._margin
        )
        join = net.AveragedLoss if self._average_loss else net.ReduceFrontSum
        join(loss, self.output_schema.field_blobs())
