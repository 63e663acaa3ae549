"""How similar vectors are, each to each: dot products of rows, side by side."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.layers import ModelLayer


class PairwiseSimilarity(ModelLayer):
    """X Y^T for each example, as one row: X (N, P, D), Y (N, Q, D) -> (N, P Q), or the columns that are picked of it.

    X and Y are the columns `x_embeddings` and `y_embeddings`, or both `all_embeddings`; the column `indices_to_gather`
    picks of the products.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dim: int,
        pairwise_similarity_func: str = "dot",
        name: str = "pairwise_similarity",
        **kwargs: Any,
    ) -> None:
        """Add a layer with so many outputs."""
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Struct), (
            f"Incorrect input type. Expected Struct, but received: {input_record}"
        )
        named = {one for one in ("all_embeddings", "x_embeddings", "y_embeddings") if one in input_record}
        assert named in ({"all_embeddings"}, {"x_embeddings", "y_embeddings"}), (
            "either (all_embeddings) xor (x_embeddings and y_embeddings) should be given."
        )
        if pairwise_similarity_func != "dot":
            raise NotImplementedError(f"pairwise_similarity_func={pairwise_similarity_func} is not valid")
        self.pairwise_similarity_func = pairwise_similarity_func
        first, last = ("all_embeddings",) * 2 if "all_embeddings" in named else ("x_embeddings", "y_embeddings")
        for one in (first, last):
            assert isinstance(input_record[one], schema.Scalar), (
                f"Incorrect input type for {one}. Expected Scalar, but received: {input_record[one]}"
            )
        self.x_embeddings, self.y_embeddings = input_record[first], input_record[last]
        self.indices_to_gather = input_record["indices_to_gather"] if "indices_to_gather" in input_record else None
        self.output_schema = schema.Scalar((np.float32, (output_dim,)), self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        x, y = self.x_embeddings(), self.y_embeddings()
        products = net.BatchMatMul([x, y], self.get_next_blob_reference(f"{x}_matmul"), trans_b=1)
        if self.indices_to_gather is None:
            net.Flatten(products, self.output_schema())
            return
        flat = net.Flatten(products, products + "_flatten")
        net.BatchGather([flat, self.indices_to_gather()], self.output_schema())
