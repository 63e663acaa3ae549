"""Two values whose weights change places slowly while a model trains."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers.layers import ModelLayer

logger = logging.getLogger(__name__)


class HomotopyWeight(ModelLayer):
    """`alpha x + beta y`: alpha falls from `max_weight` to `min_weight` with the iterations, beta rises as much.

    So the model solves what is easy first, and comes to what is wanted by and by.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "homotopy_weight",
        min_weight: float = 0.0,
        max_weight: float = 1.0,
        half_life: float = 1e6,
        quad_life: float = 3e6,
        atomic_iter: Any = None,
        **kwargs: Any,
    ) -> None:
        """Add a layer on two columns, x and y.

        Args:
            model: a `LayerModelHelper`.
            input_record: the two.
            name: of the layer.
            min_weight: what alpha falls to.
            max_weight: what it begins at.
            half_life: iterations until it has come half of the way.
            quad_life: iterations until it has come three quarters of it, more than twice as many.
            atomic_iter: a blob that counts iterations; one of the layer by default.
            kwargs: kept.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("homotopy_weight"))
        data = self.input_record.field_blobs()
        assert len(data) == 2, f"two columns, not {len(data)}"
        self.x, self.y = data
        self.use_external_iter = atomic_iter is not None
        self.atomic_iter = atomic_iter if self.use_external_iter else self.create_atomic_iter()
        assert max_weight > min_weight, f"max_weight = {max_weight} must be above min_weight = {min_weight}"
        self.scale = float(max_weight - min_weight)
        self.offset = self.model.add_global_constant(f"{self.name}_offset_1dfloat", float(min_weight))
        self.gamma, self.power = self.solve_inv_lr_params(half_life, quad_life)

    def solve_inv_lr_params(self, half_life: float, quad_life: float) -> tuple[float, float]:
        """Return gamma and power of (1 + gamma i)^-power that is near 1/2 and 1/4 at these iterations."""
        assert half_life > 0, f"half_life = {half_life} must be above 0"
        assert quad_life > 2 * half_life, f"quad_life = {quad_life} must be above twice half_life = {half_life}"
        root = np.sqrt(2.0)
        base = float(quad_life) / float(half_life) * (1.0 + root) / 2.0 - root
        gamma, power = (base - 1.0) / float(half_life), np.log(2.0) / np.log(base)
        logger.info("weights follow (1 + %g i)^-%g", gamma, power)
        return gamma, power

    def create_atomic_iter(self) -> Any:
        """Return a new blob that counts iterations."""
        self.mutex = self.create_param(f"{self.name}_mutex", None, ("CreateMutex",), self.model.NoOptim)
        zero = ("ConstantFill", {"value": 0, "dtype": core.DataType.INT64})
        self.atomic_iter = self.create_param(f"{self.name}_atomic_iter", [1], zero, self.model.NoOptim)
        return self.atomic_iter

    def update_weight(self, net: Any) -> tuple[Any, Any]:
        """Add what makes alpha and beta of an iteration."""
        named = ("alpha", "beta", "lr", "complementary_lr", "scaled_lr", "scaled_complementary_lr")
        alpha, beta, rate, rest, scaled_rate, scaled_rest = map(net.NextScopedBlob, named)
        if not self.use_external_iter:
            net.AtomicIter([self.mutex, self.atomic_iter], [self.atomic_iter])
        net.LearningRate([self.atomic_iter], [rate], policy="inv", gamma=self.gamma, power=self.power, base_lr=1.0)
        net.Sub([self.model.global_constants["ONE"], rate], [rest])
        for part, scaled in ((rate, scaled_rate), (rest, scaled_rest)):
            net.Scale([part], [scaled], scale=self.scale)
        for scaled, weight in ((scaled_rate, alpha), (scaled_rest, beta)):
            net.Add([scaled, self.offset], [weight])
        return alpha, beta

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        alpha, beta = self.update_weight(net)
        net.WeightedSum([self.x, alpha, self.y, beta], self.output_schema())
