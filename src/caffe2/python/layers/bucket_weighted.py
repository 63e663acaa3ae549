"""A learned weight for each bucket of scores."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers.layers import ModelLayer, get_categorical_limit
from caffe2.python.layers.tags import Tags

logger = logging.getLogger(__name__)


class BucketWeighted(ModelLayer):
    """For each score in the lists of a map the weight of its bucket, which is one at the beginning."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        max_score: int = 0,
        bucket_boundaries: Any = None,
        hash_buckets: bool = True,
        weight_optim: Any = None,
        name: str = "bucket_weighted",
    ) -> None:
        """Add a layer; buckets lie between boundaries, or a score is the number of its bucket.

        Args:
            model: a `LayerModelHelper`.
            input_record: a map whose values are scores.
            max_score: how many buckets there are without boundaries; the limit of the keys by default.
            bucket_boundaries: in ascending order.
            hash_buckets: whether numbers of buckets are hashed.
            weight_optim: what updates the weights.
            name: of the layer.
        """
        super().__init__(model, name, input_record)
        assert isinstance(input_record, schema.List), "Incorrect input type"
        self.bucket_boundaries, self.hash_buckets = bucket_boundaries, hash_buckets
        if bucket_boundaries is not None:
            self.shape = len(bucket_boundaries) + 1
        else:
            self.shape = max_score if max_score > 0 else get_categorical_limit(input_record)
        self.bucket_w = self.create_param("bucket_w", [self.shape], ("ConstantFill", {"value": 1.0}), weight_optim)
        weights = schema.Scalar((np.float32, self.shape), self.get_next_blob_reference("bucket_w_gather"))
        self.output_schema = schema.Struct(("bucket_weights", weights))
        self.tags.update({Tags.HANDLE_AS_SPARSE_LAYER})

    def get_memory_usage(self) -> int:
        """Return how many weights there are."""
        return self.shape

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        scores = self.input_record.values()
        if self.bucket_boundaries is None:
            buckets = net.Cast(scores, "buckets_int", to=core.DataType.INT32)
        else:
            buckets = net.Bucketize(scores, "buckets_int", boundaries=self.bucket_boundaries)
        if self.hash_buckets:
            buckets = net.IndexHash(buckets, "hashed_buckets_int", seed=0, modulo=self.shape)
        net.Gather([self.bucket_w, buckets], self.output_schema.bucket_weights.field_blobs())
