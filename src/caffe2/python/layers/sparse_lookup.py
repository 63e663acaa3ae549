"""Tables of embeddings: rows that ids pick, and what is made of the rows of a list."""

from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

import numpy as np

from caffe2.python import schema
from caffe2.python.helpers.arg_scope import get_current_scope
from caffe2.python.layers.layers import (
    IdList,
    IdListWithEvicted,
    IdScoreList,
    IdScoreListWithEvicted,
    LayerPsParam,
    ModelLayer,
    almost_equal_schemas,
    get_categorical_limit,
    get_key,
)
from caffe2.python.optimizer import FP16_ENGINES, Optimizer

logger = logging.getLogger(__name__)

ROWS = {
    "uint8rowwise": "8BitsRowwise",
    "fused_uint8rowwise": "Fused8BitRowwise",
    "fused_uint4rowwise": "Fused4BitRowwise",
}
"""How operators are called that take rows of few bits, by the version of the table."""

VERSIONS = {"fp32", "fp16", *ROWS}
WIDE = {"fp32", "fp16"}
"""Versions whose tables hold real numbers."""


class FusedRows(NamedTuple):
    """A table whose rows may become bytes with their scales behind them."""

    w: Any


class RowsAndScales(NamedTuple):
    """A table whose rows may become bytes, and the blob for their scales."""

    w: Any
    scale_bias: Any


def get_trainer_version_based_on_optim(optim_def: Any) -> str:
    """Return fp16 if an optimizer's engine is one for float16, else fp32."""
    half = isinstance(optim_def, Optimizer) and getattr(optim_def, "engine", None) in FP16_ENGINES
    return "fp16" if half else "fp32"


def get_sparse_lookup_predictor_version(
    version: str,
    blob_size: int | None = None,
    min_blob_size_4bits: int | None = None,
    embedding_dim: int | None = None,
    sparse_feature_name: Any = None,
) -> str:
    """Return the version of a table in nets that predict: that of 4 bits only for large tables of even rows.

    Raises:
        ValueError: 4 bits are wanted, and one of the three numbers is not given.
    """
    assert version in VERSIONS, f"Unexpected version of sparse_lookup layer {version}"
    if version != "fused_uint4rowwise":
        return version
    if blob_size is None or min_blob_size_4bits is None or embedding_dim is None:
        raise ValueError(
            f"4 bits for {sparse_feature_name} require blob_size={blob_size}, "
            f"min_blob_size_4bits={min_blob_size_4bits} and embedding_dim={embedding_dim}"
        )
    if blob_size < min_blob_size_4bits or embedding_dim % 2 == 1:
        logger.info("%s takes 8 bits: %s elements, rows of %s", sparse_feature_name, blob_size, embedding_dim)
        return "fused_uint8rowwise"
    return version


def get_sparse_lookup_trainer_version(version: str) -> str:
    """Return the version of a table in nets that train, if it is one of the two."""
    assert version in WIDE, f"Unexpected version of sparse_lookup layer {version}"
    return version


def _is_id_list(record: Any) -> bool:
    return almost_equal_schemas(record, IdList)


def _is_id_score_list(record: Any) -> bool:
    return almost_equal_schemas(record, IdScoreList, check_field_types=False)


class SparseLookup(ModelLayer):
    """A table W (limit of the ids, *inner_shape), and for each list of ids one row that a reducer makes of its rows.

    Lists of ids have the reducers Sum, Mean, WeightedSum and WeightedMean (which are these), Sqrt (rows divided by the
    square root of their number), Max, LogSumExp, LogMeanExp and None (all rows as they are). Maps from ids to scores
    have Sum, Mean, None, WeightedSum and WeightedMean, whose weights are the scores, and PositionWeighted and
    RecencyWeighted, which give the scores a gradient too.
    """

    _id_list_supported_reducers = (
        *("LogMeanExp", "LogSumExp", "Max", "Mean", "Sum"),
        *("WeightedSum", "WeightedMean", "Sqrt", "None"),
    )
    _id_score_list_supported_reducers = (
        *("PositionWeighted", "RecencyWeighted", "Mean", "Sum"),
        *("WeightedSum", "WeightedMean", "None"),
    )
    _fp16_compatible_init_op_types = ("Float16UniformFill",)
    _fp16_compatible_reducers = ("Sum", "Mean", "Sqrt", "PositionWeighted", "RecencyWeighted")

    def __init__(
        self,
        model: Any,
        input_record: Any,
        inner_shape: Any,
        reducer: str,
        weight_init: Any = None,
        weight_optim: Any = None,
        name: str = "sparse_lookup",
        regularizer: Any = None,
        use_external_weights: bool = False,
        uniform_weight_init_scale_numerator: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Add a layer.

        Args:
            model: a `LayerModelHelper`.
            input_record: lists of ids, or maps from ids to scores.
            inner_shape: of a row.
            reducer: see above.
            weight_init: operator type and arguments that fill W; uniform in +-sqrt(numerator / limit) by default.
            weight_optim: what updates W; its engine says whether W is float16 while the model trains.
            name: of the layer.
            regularizer: of W.
            use_external_weights: whether scores are weights of a sum, with a gradient.
            uniform_weight_init_scale_numerator: see above.
            kwargs: kept.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.sparse_key = get_key(self.input_record)()
        shape: Any = [inner_shape] if isinstance(inner_shape, int) else inner_shape
        assert isinstance(shape, (list, tuple)), (
            f"Unexpected type for inner_shape, expected list or tuple, got {type(shape)} for {self.sparse_key}"
        )
        self.reducer, self.use_external_weights = reducer, use_external_weights
        if reducer in ("PositionWeighted", "RecencyWeighted") or use_external_weights:
            self._take_external_weights()
        self.input_dim = get_categorical_limit(self.input_record)
        assert self.input_dim > 0, f"{self.sparse_key} should have categorical limit > 0, but got {self.input_dim}"
        self.shape: list[int] = [self.input_dim, *shape]
        self.trainer_version = get_trainer_version_based_on_optim(weight_optim)
        self.uniform_weight_init_scale_numerator = uniform_weight_init_scale_numerator
        self.weight_init = weight_init or self._get_default_init_op()
        self.evicted_values = self._evicted()
        if self.trainer_version == "fp16":
            self._check_fp16(regularizer)
        known = self.input_record.lengths.metadata
        expected = known.expected_value if known else None
        self.w = self.create_param(
            "w",
            self.shape,
            self.weight_init,
            weight_optim,
            ps_param=LayerPsParam(sparse_key=self.sparse_key, average_length=expected),
            regularizer=regularizer,
        )
        if self.evicted_values:
            self.reinit_vec = self.create_param("reinit_vec", shape, self.weight_init, model.NoOptim)
        self.scale_bias_init = ("ConstantFill", {"value": 0.0})
        self.scale_bias = self.create_param("scale_bias", [], self.scale_bias_init, model.NoOptim)
        self.output_schema = schema.Scalar((np.float32, shape), self.get_next_blob_reference("output"))

    def _take_external_weights(self) -> None:
        """Take the scores for weights.

        Raises:
            AssertionError: there are none, or the reducer has no weights.
        """
        named = self.reducer if not self.use_external_weights else "Use_external_weights"
        assert _is_id_score_list(self.input_record), (
            f"{named} only supports IdScoreList, which {self.sparse_key} is not: "
            "the layer PositionWeighted makes weights of positions"
        )
        assert not self.use_external_weights or self.reducer in (
            *("Sum", "WeightedSum"),
            *("PositionWeighted", "RecencyWeighted"),
        ), f"Use_external_weights only supports Sum reducer, while the reducer is {self.reducer}."
        self.external_weights = self.input_record.values()

    def _evicted(self) -> Any:
        """Return the column of ids whose rows begin anew, if there is one."""
        record = self.input_record
        has = schema.equal_schemas(record, IdListWithEvicted) or schema.equal_schemas(
            record, IdScoreListWithEvicted, check_field_types=False
        )
        return record._evicted_values if has else None

    def _check_fp16(self, regularizer: Any) -> None:
        """See that all bears float16, and fill W so."""
        assert self.reducer in self._fp16_compatible_reducers or self.use_external_weights, (
            f"float16 tables train with the reducers {self._fp16_compatible_reducers}, not with {self.reducer}"
        )
        if self.weight_init[0] == "UniformFill":
            self.weight_init = ("Float16UniformFill", self.weight_init[1])
        assert self.weight_init[0] in self._fp16_compatible_init_op_types, (
            f"float16 tables are filled by {self._fp16_compatible_init_op_types}, not by {self.weight_init[0]}"
        )
        assert regularizer is None, "Regularizer is not compatible with fp16"

    def _get_default_init_op(self) -> Any:
        scale = math.sqrt(self.uniform_weight_init_scale_numerator / self.input_dim)
        kind = "Float16UniformFill" if self.trainer_version == "fp16" else "UniformFill"
        return (kind, {"min": -scale, "max": scale})

    def get_memory_usage(self) -> int:
        """Return how many bytes W takes as float32."""
        return math.prod(self.shape) * 4

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """Return W."""
        return [self.w]

    def support_8bit(self) -> bool:
        """Whether bytes with a scale for each row are worth it: rows of one axis, of 8 elements and more."""
        return len(self.shape) == 2 and self.shape[1] >= 8

    def get_8bits_compatible_parameters(self, fused: bool = True) -> list[Any]:
        """Return W, with the scales of its rows where these lie beside it, if bytes are worth it."""
        if not self.support_8bit():
            return []
        return [FusedRows(self.w) if fused else RowsAndScales(self.w, self.scale_bias)]

    def _gather_wrapper(self, net: Any, version: str, in_indices: Any, out: Any) -> Any:
        """Add what picks rows, and makes float32 of them."""
        if version == "fp32":
            return net.Gather([self.w, in_indices], out)
        rows = net.Gather([self.w, in_indices], "gathered_w")
        if version == "fp16":
            return net.HalfToFloat(rows, out)
        if version == "uint8rowwise":
            scales = net.Gather([self.scale_bias, in_indices], "gathered_scale_bias")
            return net.Rowwise8BitQuantizedToFloat([rows, scales], out)
        return getattr(net, f"{ROWS[version]}QuantizedToFloat")(rows, out)

    def _lookup(self, net: Any, version: str, reducer: str, inputs: list[Any], **arguments: Any) -> None:
        """Add a lookup that picks and reduces in one; `arguments` are of those whose tables hold real numbers."""
        scales = [self.scale_bias] if version == "uint8rowwise" else []
        add = getattr(net, f"SparseLengths{reducer}{ROWS.get(version, '')}")
        add([*inputs, *scales], self.output_schema.field_blobs(), **(arguments if version in WIDE else {}))

    def _sparse_lengths_weighted_reducer(
        self, in_indices: Any, weights: Any, reducer: str, net: Any, version: str, grad_on_weights: int = 0
    ) -> None:
        """Add a lookup with a weight for each id."""
        engine = {"engine": "FP16"} if (reducer, version) == ("WeightedSum", "fp16") else {}
        inputs = [self.w, weights, in_indices, self.input_record.lengths()]
        self._lookup(net, version, reducer, inputs, grad_on_weights=grad_on_weights, **engine)

    def _add_ops_id_list(self, net: Any, version: str) -> None:
        """Add the operators for lists of ids."""
        assert self.reducer in self._id_list_supported_reducers, (
            f"Unsupported reducer: {self.reducer} for ID_LIST {self.sparse_key}"
        )
        self.reducer = {"WeightedSum": "Sum", "WeightedMean": "Mean"}.get(self.reducer, self.reducer)
        ids, lengths = self.input_record.items(), self.input_record.lengths()
        if self.reducer in ("Sum", "Mean"):
            self._lookup(net, version, self.reducer, [self.w, ids, lengths])
        elif self.reducer == "Sqrt":
            weights = net.LengthsToWeights([lengths], [net.NextScopedBlob("lengths_sqrt")], power=0.5)
            self._sparse_lengths_weighted_reducer(ids, weights, "WeightedSum", net, version)
        elif self.reducer == "None":
            self._gather_wrapper(net, version, ids, self.output_schema.field_blobs())
        else:
            rows = self._gather_wrapper(net, version, ids, "table_rows")
            segments = net.LengthsToSegmentIds(lengths, net.NextScopedBlob(lengths + "_sid"))
            reduce = getattr(net, f"SortedSegmentRange{self.reducer}")
            reduce([rows, segments], self.output_schema.field_blobs())

    def _add_ops_id_score_list(self, net: Any, version: str) -> None:
        """Add the operators for maps from ids to scores."""
        assert self.reducer in self._id_score_list_supported_reducers, (
            f"Unsupported reducer: {self.reducer} for ID_SCORE_LIST {self.sparse_key}"
        )
        ids = self.input_record.keys()
        if self.reducer in ("WeightedSum", "WeightedMean"):
            self._sparse_lengths_weighted_reducer(ids, self.input_record.values(), self.reducer, net, version)
        elif self.reducer in ("PositionWeighted", "RecencyWeighted") or self.use_external_weights:
            weights = self.external_weights
            self._sparse_lengths_weighted_reducer(ids, weights, "WeightedSum", net, version, grad_on_weights=1)
        elif self.reducer in ("Sum", "Mean"):
            self._lookup(net, version, self.reducer, [self.w, ids, self.input_record.lengths()])
        else:
            self._gather_wrapper(net, version, ids, self.output_schema.field_blobs())

    def _add_ops(self, net: Any, version: str = "fp32", is_train: bool = True) -> None:
        if self.evicted_values and is_train:
            net.CopyRowsToTensor([self.w, self.evicted_values.get(), self.reinit_vec], [self.w])
        if _is_id_list(self.input_record):
            self._add_ops_id_list(net, version)
        else:
            assert _is_id_score_list(self.input_record), f"Unsupported input type {self.input_record}"
            self._add_ops_id_score_list(net, version)

    def add_train_ops(self, net: Any) -> None:
        """Add the operators, and before them what begins anew the rows of evicted ids."""
        self._add_ops(net, self.trainer_version)

    def add_ops(self, net: Any) -> None:
        """Add the operators for the version that `get_sparse_lookup_predictor_version` has in the present scope."""
        given = get_current_scope().get(get_sparse_lookup_predictor_version.__name__, {"version": "fp32"})
        version = get_sparse_lookup_predictor_version(
            given["version"],
            blob_size=self.shape[0] * self.shape[1],
            min_blob_size_4bits=given.get("min_blob_size_4bits"),
            embedding_dim=self.shape[1],
            sparse_feature_name=self.sparse_key,
        )
        if version not in WIDE and not self.support_8bit():
            version = "fp16"
        self._add_ops(net, version, is_train=False)
