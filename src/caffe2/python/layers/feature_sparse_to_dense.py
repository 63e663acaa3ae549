"""Features that come as lists of keys and values, as dense columns in a given order."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import AccessedFeatures, ModelLayer

LISTS: dict[str, dict[str, Any]] = {
    "ID_LIST": {"values": np.int64},
    "ID_SCORE_LIST": {"ids": np.int64, "scores": np.float32},
    "EMBEDDING": {"values": np.float32},
    "GENERIC_FEATURE": {"values": np.float32},
}
"""What goes out beside the ranges of features that are lists, by their type."""

RANGES = {"ID_LIST": "id_list_ranges", "ID_SCORE_LIST": "id_score_list_ranges", "EMBEDDING": "embeddings_ranges"}
"""Names of blobs with the ranges of all lists."""


class FeatureSparseToDense(ModelLayer):
    """Of each field of a record the features that its specification names, in that order.

    A feature of the type FLOAT is a column of a matrix; one that is a list is a pair (begin, length) of `ranges`, which
    leads to the field's values. What a row lacks is 0 or NaN, or a list of no length.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        input_specs: Any,
        name: str = "feature_sparse_to_dense",
        default_dense_value: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Add a layer.

        Args:
            model: a `LayerModelHelper`.
            input_record: fields of lists of keys and values.
            input_specs: pairs of a field and its `schema.FeatureSpec`: feature_type, feature_names, feature_ids.
            name: of the layer.
            default_dense_value: 0 or NaN.
            kwargs: kept.

        Raises:
            TypeError: a feature_type is none of those above.
        """
        super().__init__(model, name, input_record, **kwargs)
        default = float(0.0 if default_dense_value is None else default_dense_value)
        assert np.isnan(default) or default == 0.0, "default_dense_value can only be 0.0 or NaN"
        self.input_specs = input_specs
        self.default_float_value = model.global_constants["NAN" if np.isnan(default) else "ZERO"]
        self.zero_range = model.global_constants["ZERO_RANGE"]
        self.output_schema = schema.Struct(*((field, self._column(field, spec)) for field, spec in input_specs))
        for field, spec in input_specs:
            schema.attach_metadata_to_scalars(self.output_schema[field], schema.Metadata(feature_specs=spec))

    def _column(self, field: str, spec: Any) -> Any:
        """Return what goes out of a field."""
        count = len(spec.feature_ids)
        assert len(spec.feature_names) == count, f"{field}: {len(spec.feature_names)} names for {count} features"
        if spec.feature_type == "FLOAT":
            return schema.Scalar((np.float32, (count,)), self.get_next_blob_reference(f"{field}_output"))
        if spec.feature_type not in LISTS:
            raise TypeError(f"Unsupported input type: {spec.feature_type}")
        columns = {"ranges": (np.int32, (count, 2)), **LISTS[spec.feature_type]}
        return schema.Struct(
            *(
                (part, schema.Scalar(kind, self.get_next_blob_reference(f"{field}_{part}")))
                for part, kind in columns.items()
            )
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators, field by field."""
        for field, spec in self.input_specs:
            source, target = self.input_record[field], self.output_schema[field]
            if spec.feature_type == "FLOAT":
                inputs = [source.keys(), source.values(), self.default_float_value, source.lengths()]
                net.SparseToDenseMask(inputs, [target()], mask=spec.feature_ids)
            elif spec.feature_type == "GENERIC_FEATURE":
                names = ["feature_lengths", "feature_ids", "value_lengths", "value_values"]
                lengths, ids, counts, values = net.ParseGeneric([source()], names, feature_type_enum=1)
                self._add_ranges(net, "generics_ranges", (ids, counts, lengths), spec, target)
                net.Alias(values, target.values())
            else:
                lists = (source.keys(), source.values.lengths(), source.lengths())
                self._add_ranges(net, RANGES[spec.feature_type], lists, spec, target)
                self._add_values(net, source.values, target)

    def _add_ranges(self, net: Any, name: str, lists: tuple[Any, Any, Any], spec: Any, target: Any) -> None:
        """Add what finds the list of each feature in each row, of (keys, lengths of lists, keys of each row)."""
        keys, counts, lengths = lists
        ranges = net.LengthsToRanges(counts, net.NextScopedBlob(name))
        net.SparseToDenseMask([keys, ranges, self.zero_range, lengths], target.ranges(), mask=spec.feature_ids)

    def _add_values(self, net: Any, values: Any, target: Any) -> None:
        """Add other names for what is in the lists: what goes out is always a blob of the layer."""
        if "ids" in target:
            net.Alias(values.keys(), target.ids())
            net.Alias(values.values(), target.scores())
        else:
            net.Alias(values.items(), target.values())

    def get_metadata(self) -> list[Any]:
        """Return for each field a description, and the blobs and types of what goes out."""
        found: list[Any] = []
        for field, spec in self.input_specs:
            told = {"type": spec.feature_type, "names": spec.feature_names, "ids": spec.feature_ids}
            if spec.feature_type == "FLOAT":
                told["cardinality"] = 1
            target = self.output_schema[field]
            found.append((told, target.field_blobs(), target.field_types()))
        return found

    def get_accessed_features(self) -> dict[str, list[AccessedFeatures]]:
        """Return which features are read, by field."""
        found: defaultdict[str, list[AccessedFeatures]] = defaultdict(list)
        for field, spec in self.input_specs:
            found[field].append(AccessedFeatures(spec.feature_type, set(spec.feature_ids)))
        return found
