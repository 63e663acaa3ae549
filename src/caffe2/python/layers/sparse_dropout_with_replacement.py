"""Dropout of ids."""

from __future__ import annotations

from typing import Any

from caffe2.python import schema
from caffe2.python.layers.layers import IdList, ModelLayer


class SparseDropoutWithReplacement(ModelLayer):
    """Lists of ids, of which some, drawn anew in each run, give way to one id that stands for them."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        dropout_prob_train: float,
        dropout_prob_eval: float,
        dropout_prob_predict: float,
        replacement_value: int,
        name: str = "sparse_dropout",
        **kwargs: Any,
    ) -> None:
        """Add a layer on lists of ids, with the probability that lists are dropped in each use of the model."""
        super().__init__(model, name, input_record, **kwargs)
        assert schema.equal_schemas(input_record, IdList), "Incorrect input type"
        self.dropout_prob_train = float(dropout_prob_train)
        self.dropout_prob_eval = float(dropout_prob_eval)
        self.dropout_prob_predict = float(dropout_prob_predict)
        self.replacement_value = int(replacement_value)
        chances = (self.dropout_prob_train, self.dropout_prob_eval, self.dropout_prob_predict)
        assert all(0 <= chance <= 1 for chance in chances), f"Expected probabilities from 0 to 1, but got {chances}"
        assert any(chances), "Ratios all set to 0.0 for train, eval and predict"
        self.output_schema = schema.NewRecord(model.net, IdList)
        for source, target in (
            (input_record.lengths, self.output_schema.lengths),
            (input_record.items, self.output_schema.items),
        ):
            if source.metadata:
                target.set_metadata(source.metadata)

    def _add_ops(self, net: Any, ratio: float) -> None:
        source, target = self.input_record, self.output_schema
        net.SparseDropoutWithReplacement(
            [source.items(), source.lengths()],
            [target.items(), target.lengths()],
            ratio=ratio,
            replacement_value=self.replacement_value,
        )

    def add_train_ops(self, net: Any) -> None:
        """Add the operator, as it trains."""
        self._add_ops(net, self.dropout_prob_train)

    def add_eval_ops(self, net: Any) -> None:
        """Add the operator, as it is tested."""
        self._add_ops(net, self.dropout_prob_eval)

    def add_ops(self, net: Any) -> None:
        """Add the operator, as it predicts."""
        self._add_ops(net, self.dropout_prob_predict)
