"""Bayesian personalized ranking: what is liked is to score above what is not."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.layers.tags import Tags

PAIRS = schema.Struct(("pos_prediction", schema.Scalar()), ("neg_prediction", schema.List(np.float32)))
"""A score, and beside it a list of scores that should be less."""


class BPRLoss(ModelLayer):
    """The sum of log(1 + exp(n - p)) over all scores n in the lists of rows with the score p.

    Source: Rendle, Freudenthaler, Gantner, Schmidt-Thieme 2009.
    """

    def __init__(self, model: Any, input_record: Any, name: str = "bpr_loss", **kwargs: Any) -> None:
        """Add a layer on the columns `pos_prediction` and `neg_prediction`."""
        super().__init__(model, name, input_record, **kwargs)
        assert schema.is_schema_subset(PAIRS, input_record), f"{input_record} is not {PAIRS}"
        self.tags.update([Tags.EXCLUDE_FROM_PREDICTION])
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        negative, positive = tiled_pairs(net, self.input_record)
        losses = net.Softplus([net.Sub([negative, positive])])
        net.ReduceFrontSum(losses, self.output_schema.field_blobs())


def tiled_pairs(net: Any, record: Any) -> tuple[Any, Any]:
    """Return the scores in all lists, and for each the score of its row."""
    negative = record.neg_prediction
    positive = net.LengthsTile(
        [record.pos_prediction(), negative["lengths"]()], net.NextScopedBlob("pos_score_repeated")
    )
    return negative["values"](), positive
