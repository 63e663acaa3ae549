"""Records of labels beside what was predicted."""

from __future__ import annotations

from typing import Any

from caffe2.python import schema


def require_label(record: Any, beside: str = "prediction") -> None:
    """Refuse a record without the columns `label` and `beside`."""
    columns = schema.Struct(("label", schema.Scalar()), (beside, schema.Scalar()))
    assert schema.is_schema_subset(columns, record), f"{record} lacks label or {beside}"
