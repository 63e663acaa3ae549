"""Another record for each use of a model."""

from __future__ import annotations

import logging
from typing import Any

from caffe2.python import schema
from caffe2.python.layers.layers import InstantiationContext, ModelLayer

logger = logging.getLogger(__name__)


class SelectRecordByContext(ModelLayer):
    """Of several records alike the one that is named as what the net is for: `training`, `eval`, `prediction` ...

    So paths of a model part, and come together again in blobs of one name.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "select_record_by_context",
        check_field_metas: bool = True,
        use_copy: bool = False,
        default_output_record_field: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Add a layer.

        Args:
            model: a `LayerModelHelper`.
            input_record: a record of records.
            name: of the layer.
            check_field_metas: whether what is known of their columns must be equal too.
            use_copy: whether blobs are copied; else they get another name.
            default_output_record_field: which record is taken for uses that have none.
            kwargs: kept.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Struct), f"a record of records, not {input_record}"
        assert len(input_record) > 1, "at least two records"
        self.use_copy = use_copy
        default = default_output_record_field
        self.default_output_record = None if default is None else input_record[default]
        first = input_record[0]
        for record in input_record:
            assert schema.equal_schemas(record, first, check_field_metas=check_field_metas), (
                f"{record} is not as {first}"
            )
        self.output_schema = schema.NewRecord(model.net, first)

    def _set_output_blobs(self, net: Any, context: str) -> None:
        record = self.input_record.get(context, self.default_output_record)
        assert record is not None, f"{context} context is not in input record without providing default output"
        add = net.Copy if self.use_copy else net.Alias
        for source, target in zip(record.field_blobs(), self.output_schema.field_blobs(), strict=True):
            add(source, target)

    def add_ops(self, net: Any) -> None:
        """Add what takes the record for predictions."""
        self._set_output_blobs(net, InstantiationContext.PREDICTION)

    def add_eval_ops(self, net: Any) -> None:
        """Add what takes the record for tests."""
        self._set_output_blobs(net, InstantiationContext.EVAL)

    def add_train_ops(self, net: Any) -> None:
        """Add what takes the record for training."""
        self._set_output_blobs(net, InstantiationContext.TRAINING)

    def add_ops_to_accumulate_pred(self, net: Any) -> None:
        """Add what takes the record for collected predictions."""
        self._set_output_blobs(net, InstantiationContext.ACCUMULATE_PRED)
