"""Features that are linear with learned weights where random directions let them through."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import schema
from caffe2.python.layers.arc_cosine_feature_map import ArcCosineFeatureMap


class SemiRandomFeatures(ArcCosineFeatureMap):
    """`H(z) z^s (X V^T + c)` with z of random weights, as in `ArcCosineFeatureMap`, and learned V and c.

    Out go the columns `full`, and `random`, which is `H(z) z^s` alone. What comes in is one column for both, or a
    record of a column `full` and one `random`, as such a layer gives it.

    Source: Kawaguchi, Xie, Verma, Song 2018, arXiv 1702.08882.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        s: int = 1,
        scale_random: float = 1.0,
        scale_learned: float = 1.0,
        weight_init_random: Any = None,
        bias_init_random: Any = None,
        weight_init_learned: Any = None,
        bias_init_learned: Any = None,
        weight_optim: Any = None,
        bias_optim: Any = None,
        set_weight_as_global_constant: bool = False,
        name: str = "semi_random_features",
        **kwargs: Any,
    ) -> None:
        """Add a layer; `..._random` concerns W and b, `..._learned` and the optimizers V and c."""
        pair = isinstance(input_record, schema.Struct)
        self.input_record_full = input_record.full if pair else input_record
        self.input_record_random = input_record.random if pair else input_record
        super().__init__(
            model,
            self.input_record_full,
            output_dims,
            s=s,
            scale=scale_random,
            weight_init=weight_init_random,
            bias_init=bias_init_random,
            set_weight_as_global_constant=set_weight_as_global_constant,
            initialize_output_schema=False,
            name=name,
            **kwargs,
        )
        self.output_schema = schema.Struct(
            *(
                (part, schema.Scalar((np.float32, output_dims), model.net.NextScopedBlob(f"{name}_{part}_output")))
                for part in ("full", "random")
            )
        )
        assert scale_learned > 0.0, f"Expected scale (learned) > 0, got {scale_learned}"
        self.stddev = scale_learned * np.sqrt(1.0 / self.input_dims)
        self.learned_w, self.learned_b = self._initialize_params(
            "learned_w", "learned_b", weight_init_learned, bias_init_learned, weight_optim, bias_optim
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        learned = net.FC(
            [*self.input_record_full.field_blobs(), self.learned_w, self.learned_b],
            net.NextScopedBlob("learned_features"),
        )
        z = net.FC(
            [*self.input_record_random.field_blobs(), self.random_w, self.random_b],
            net.NextScopedBlob("random_features"),
        )
        passed = self._heaviside_with_power(net, z, self.output_schema.random.field_blobs(), self.s)
        net.Mul([passed, learned], self.output_schema.full.field_blobs())
