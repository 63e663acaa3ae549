"""Losses of several tasks, joined with weights that are learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.regularizer import BoundedGradientProjection, LogBarrier


class AdaptiveWeight(ModelLayer):
    """The sum of w_i x_i + r_i over losses x_i: each weight follows from how uncertain its task is, r_i keeps it up.

    With `log_std` the parameter is mu_i, the logarithm of a variance: w = exp(-mu) / 2, r = mu / 2. With `inv_var` it
    is k_i, one over the variance, which has to stay above 0: w = k / 2, r = -log(k) / 2.

    Source: Kendall, Gal, Cipolla 2017, arXiv 1705.07115.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "adaptive_weight",
        optimizer: Any = None,
        weights: Any = None,
        enable_diagnose: bool = False,
        estimation_method: str = "log_std",
        pos_optim_method: str = "log_barrier",
        reg_lambda: float = 0.1,
        **kwargs: Any,
    ) -> None:
        """Add a layer on columns of one loss each; the weights begin equal, or as they are given.

        Args:
            model: a `LayerModelHelper`.
            input_record: the losses.
            name: of the layer.
            optimizer: what updates the parameter.
            weights: to begin with, all above 0; one over their number by default.
            enable_diagnose: whether each weight is a blob that is measured.
            estimation_method: log_std or inv_var.
            pos_optim_method: what keeps k above 0, log_barrier or pos_grad_proj.
            reg_lambda: how strong the barrier is.
            kwargs: kept.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("adaptive_weight"))
        self.data = self.input_record.field_blobs()
        self.num = len(self.data)
        self.optimizer = optimizer
        given = [1.0 / self.num] * self.num if weights is None else weights
        assert len(given) == self.num, f"{len(given)} weights for {self.num} losses"
        assert min(given) > 0, "initial weights must be positive"
        self.weights = np.array(given).astype(np.float32)
        self.estimation_method = str(estimation_method).lower()
        self.pos_optim_method = str(pos_optim_method).lower()
        self.reg_lambda = float(reg_lambda)
        self.enable_diagnose = enable_diagnose
        self.init_func = getattr(self, f"{self.estimation_method}_init")
        self.weight_func = getattr(self, f"{self.estimation_method}_weight")
        self.reg_func = getattr(self, f"{self.estimation_method}_reg")
        self.init_func()
        if enable_diagnose:
            self.weight_i = [self.get_next_blob_reference(f"adaptive_weight_{i}") for i in range(self.num)]
            for blob in self.weight_i:
                self.model.add_ad_hoc_plot_blob(blob)

    def _parameter(self, name: str, values: Any, regularizer: Any = None) -> Any:
        fill = ("GivenTensorFill", {"values": values, "dtype": core.DataType.FLOAT})
        return self.create_param(name, [self.num], fill, self.optimizer, regularizer=regularizer)

    def concat_data(self, net: Any) -> Any:
        """Return a blob (number of losses) with all of them."""
        single = [net.NextScopedBlob(f"reshaped_data_{i}") for i in range(self.num)]
        for i, (loss, name) in enumerate(zip(self.data, single, strict=True)):
            net.Reshape([loss], [name, net.NextScopedBlob(f"new_shape_{i}")], shape=[1])
        joined = net.NextScopedBlob("concated_data")
        net.Concat(single, [joined, net.NextScopedBlob("concated_new_shape")], axis=0)
        return joined

    def log_std_init(self) -> None:
        """Make mu."""
        self.mu = self._parameter("mu", np.log(1.0 / 2.0 / self.weights))

    def log_std_weight(self, x: Any, net: Any, weight: Any) -> None:
        """Add exp(-mu) / 2."""
        del x
        opposite = net.Negative(self.mu, net.NextScopedBlob("mu_neg"))
        net.Scale(net.Exp(opposite, net.NextScopedBlob("mu_neg_exp")), weight, scale=0.5)

    def log_std_reg(self, net: Any, reg: Any) -> None:
        """Add mu / 2."""
        net.Scale(self.mu, reg, scale=0.5)

    def inv_var_init(self) -> None:
        """Make k."""
        if self.pos_optim_method == "log_barrier":
            keeper: Any = LogBarrier(reg_lambda=self.reg_lambda)
        elif self.pos_optim_method == "pos_grad_proj":
            keeper = BoundedGradientProjection(lb=0, left_open=True)
        else:
            raise TypeError(f"unknown positivity optimization method: {self.pos_optim_method}")
        self.k = self._parameter("k", 2.0 * self.weights, keeper)

    def inv_var_weight(self, x: Any, net: Any, weight: Any) -> None:
        """Add k / 2."""
        del x
        net.Scale(self.k, weight, scale=0.5)

    def inv_var_reg(self, net: Any, reg: Any) -> None:
        """Add -log(k) / 2."""
        net.Scale(net.Log(self.k, net.NextScopedBlob("log_k")), reg, scale=-0.5)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        x = self.concat_data(net)
        weight, reg = net.NextScopedBlob("weight"), net.NextScopedBlob("reg")
        products, sums = net.NextScopedBlob("weighted_x"), net.NextScopedBlob("weighted_x_add_reg")
        self.weight_func(x, net, weight)
        self.reg_func(net, reg)
        net.Mul([weight, x], products)
        net.Add([products, reg], sums)
        net.SumElements(sums, self.output_schema())
        if self.enable_diagnose:
            for i, blob in enumerate(self.weight_i):
                net.Slice(weight, blob, starts=[i], ends=[i + 1])
