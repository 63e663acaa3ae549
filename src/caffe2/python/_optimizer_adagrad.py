"""Adagrad, of whole parameters, of rows, or with one number for each row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from caffe2.python import core
from caffe2.python._optimizer_base import FP16_ENGINES, Optimizer, filled, for_each_row, shape_of


class AdagradOptimizer(Optimizer):
    """Divides the learning rate by the root of the sum of squares of all gradients so far."""

    def __init__(
        self,
        alpha: float = 0.01,
        epsilon: float = 1e-4,
        decay: float = 1,
        weight_decay: float = 0.0,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        rowWise: bool = False,
        engine: str = "",
        lars: float | None = None,
        output_effective_lr: bool = False,
        output_effective_lr_and_update: bool = False,
        pruning_options: Mapping[str, Any] | None = None,
        swa_options: Mapping[str, Any] | None = None,
        ema_options: Mapping[str, Any] | None = None,
        weight_scale: Any = None,
        counter_halflife: int = -1,
        **kwargs: Any,
    ) -> None:
        """Take what the learning rate starts from, and options.

        Args:
            alpha: what the policy starts from.
            epsilon: added to the root.
            decay: of the sum, of whole parameters only.
            weight_decay: times the parameter is added to its gradient, by the operators.
            policy: of the learning rate.
            sparse_dedup_aggregator: "sum" or "mean" of the gradients of a row that is there more than once.
            rowWise: keep one number for each row; of gradients of rows only.
            engine: of the operators; some keep the sum in float16.
            lars: offset of the operator Lars.
            output_effective_lr: write `<parameter>_effective_lr`.
            output_effective_lr_and_update: and `<parameter>_update`.
            pruning_options: a mask, or when to make which share of one.
            swa_options: of the operator SWA, which averages parameters.
            ema_options: of the operator EMA.
            weight_scale: an object with `stepsize`, `upper_bound_iter`, `scale` and `to_aux`.
            counter_halflife: of the operator RowWiseCounter; -1 counts nothing.
            **kwargs: of the policy.
        """
        super().__init__()
        self.alpha = alpha
        self.epsilon = epsilon
        self.decay = decay
        self.weight_decay = float(weight_decay)
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.rowWise = rowWise
        self.engine = engine
        self.lars = lars
        self.output_effective_lr = output_effective_lr
        self.output_effective_lr_and_update = output_effective_lr_and_update
        self.counter_halflife = counter_halflife
        self.init_kwargs = kwargs
        self.weight_scale = weight_scale
        self._process_pruning_options(pruning_options)
        self._process_swa_options(swa_options)
        self._process_ema_options(ema_options)

    def _process_swa_options(self, swa_options: Mapping[str, Any] | None) -> None:
        self.swa_enabled = bool(swa_options)
        if swa_options:
            for name in ("avg_start_it", "avg_end_it", "feedback_start_it", "feedback_step", "feedback_end_it"):
                setattr(self, f"swa_{name}", swa_options.get(f"swa_{name}"))

    def _process_ema_options(self, ema_options: Mapping[str, Any] | None) -> None:
        self.ema_enabled = bool(ema_options)
        if ema_options:
            for name in ("start", "end", "step", "alpha"):
                setattr(self, f"ema_{name}", ema_options.get(f"ema_{name}"))

    def _process_pruning_options(self, pruning_options: Mapping[str, Any] | None) -> None:
        given: Mapping[str, Any] = pruning_options if pruning_options else {}
        self.mask_tensor: Any = given.get("mask_tensor")
        self.mask_db_path: Any = given.get("mask_db_path")
        self.mask_db_type: Any = given.get("mask_db_type")
        self.mask_blob_name: Any = given.get("mask_blob_name")
        self.prune_delays: Any = given.get("prune_delays", [])
        self.prune_ratios: Any = given.get("prune_ratios", [])
        self.prune_block_size: Any = given.get("prune_block_size", 1)
        if self.mask_tensor is not None:
            assert type(self.mask_tensor) is np.ndarray, "mask_tensor must be a numpy array!"
            assert self.mask_db_path is None, "mask can be provided through either a numpy array or a db path, not both"
        if self.mask_db_path is not None:
            assert None not in (self.mask_db_type, self.mask_blob_name), (
                "when mask is provided through db, db path, db type, and blob name are all needed"
            )
        assert len(self.prune_delays) == len(self.prune_ratios), (
            "Prune Delays and prune ratios should be of the same length"
        )
        if self.prune_ratios:
            assert self.mask_tensor is None, "Mask Tensor should be None with prune ratios"
            assert self.mask_db_path is None, "Mask DB Path should be None with prune ratios"
        self.use_mask = bool(
            self.mask_tensor is not None or self.mask_db_path is not None or len(self.prune_delays) > 0
        )

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        self._scale_by_lars(net, param_init_net, param, grad, self.lars)
        rate, iteration = self.build_lr(net, param_init_net, self.alpha, policy=self.policy, **self.init_kwargs)
        squares = self._sum_of_squares(param_init_net, param)
        counters: list[Any] = []
        if self.counter_halflife > 0:
            counters = self._counters(param_init_net, param)
            self._aux_params.shared.append(iteration)
        if isinstance(grad, core.GradientSlice):
            self._of_rows(net, param_init_net, param, squares, grad, (rate, iteration, *counters))
        else:
            self._of_whole(net, param_init_net, param, squares, grad, (rate, iteration))
        self._keep(squares, *counters)
        self._afterwards(net, param_init_net, param, squares, grad, iteration)

    def _sum_of_squares(self, param_init_net: Any, param: Any) -> Any:
        if self.rowWise:
            return for_each_row(param_init_net, param, "_avg_squared_sum", 0.0)
        if self.engine in FP16_ENGINES:
            shape = shape_of(param_init_net, param)
            assert shape is not None, f"the shape of {param} is not known"
            return param_init_net.Float16ConstantFill([], str(param) + "_squared_sum", value=0.0, shape=shape)
        return filled(param_init_net, param, "_squared_sum", value=0.0)

    @staticmethod
    def _counters(param_init_net: Any, param: Any) -> list[Any]:
        """Return how often each row was updated, and when for the last time."""
        types = core.DataType
        updates = for_each_row(param_init_net, param, "_update_counter", 0.0, dtype=types.DOUBLE)
        last = for_each_row(param_init_net, param, "_prev_update_iter", 0, dtype=types.INT64)
        return [last, updates]

    def _options(self, param_init_net: Any, param: Any) -> dict[str, Any]:
        """Return arguments of the operator; what has one dimension is a bias, and does not decay."""
        shape = shape_of(param_init_net, param) if self.weight_decay else None
        decays = self.weight_decay and (shape is None or len(shape) > 1)
        decay = {"weight_decay": self.weight_decay} if decays else {}
        return {"epsilon": self.epsilon, **decay, "engine": self.engine}

    def _of_rows(
        self, net: Any, param_init_net: Any, param: Any, squares: Any, grad: Any, others: tuple[Any, ...]
    ) -> None:
        rate, iteration, *counters = others
        assert self.decay == 1.0, "Decay is not implemented for SparseAdagrad and must be set to 1"
        grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
        op_type = "RowWiseSparseAdagrad" if self.rowWise else "SparseAdagrad"
        if self.use_mask:
            op_type = "Masked" + op_type
            assert not self.weight_decay, "weight decay is not implemented for use_mask yet"
        inputs = [param, squares, grad.indices, grad.values, rate]
        getattr(net, op_type)(inputs, [param, squares], **self._options(param_init_net, param))
        if counters:
            halflife = {"counter_halflife": self.counter_halflife}
            net.RowWiseCounter([*counters, grad.indices, iteration], counters, **halflife)

    def _of_whole(
        self, net: Any, param_init_net: Any, param: Any, squares: Any, grad: Any, others: tuple[Any, Any]
    ) -> None:
        rate, iteration = others
        assert not self.rowWise, (
            "If SparseAdagrad with rowWise=True, gradient must be a gradientslice. "
            "Please ensure that rowWise is not enabled for the dense Adagrad optimizer, as it is not supported."
        )
        inputs, outputs = [param, squares, grad, rate], [param, squares]
        if self.output_effective_lr or self.output_effective_lr_and_update:
            outputs.append(str(param) + "_effective_lr")
        if self.output_effective_lr_and_update:
            outputs.append(str(param) + "_update")
        options = {"epsilon": self.epsilon, "decay": float(self.decay)} | self._options(param_init_net, param)
        if not self.use_mask:
            net.Adagrad(inputs, outputs, **options)
            return
        assert not self.weight_decay, "weight decay is not implemented for use_mask yet"
        mask = self._mask(param_init_net, param)
        inputs.append(mask[0])
        if len(mask) > 1:
            inputs += [iteration, mask[1]]
            outputs += mask
        pruning = {"delays": self.prune_delays, "prune_ratios": self.prune_ratios}
        net.MaskedAdagrad(inputs, outputs, **options, block_size=self.prune_block_size, **pruning)

    def _mask(self, param_init_net: Any, param: Any) -> list[Any]:
        """Return the mask; where it is made while the net trains, also when it was made for the last time."""
        if self.mask_tensor is not None:
            values = {"values": self.mask_tensor.astype(np.float32).flatten().tolist(), "shape": self.mask_tensor.shape}
            return [param_init_net.GivenTensorFill([], str(param) + "_mask", **values)]
        if self.mask_db_path is not None:
            loaded = {"db": self.mask_db_path, "db_type": self.mask_db_type, "absolute_path": True}
            return [param_init_net.Load([], self.mask_blob_name, **loaded)]
        types = core.DataType
        once = {"value": -1, "dtype": types.INT64, "shape": [1]}
        last = param_init_net.ConstantFill([], str(param) + "_last_mask_updated_iter", **once)
        fill = {"values": [], "dtype": types.FLOAT, "shape": [0]}
        return [param_init_net.GivenTensorFill([], str(param) + "_empty_mask", **fill), last]

    def _afterwards(self, net: Any, param_init_net: Any, param: Any, squares: Any, grad: Any, iteration: Any) -> None:
        """Add averages of the parameter, and what scales it."""
        if self.swa_enabled and not isinstance(grad, core.GradientSlice):
            average = filled(param_init_net, param, "_swa", value=0.0)
            self._keep(average)
            names = ("avg_start", "avg_end", "feedback_start", "feedback_step", "feedback_end")
            options = {
                name: getattr(self, f"swa_{name}" + ("" if name == "feedback_step" else "_it")) for name in names
            }
            net.SWA([param, average, iteration], [param, average], **options)
        if self.ema_enabled:
            average = filled(param_init_net, param, "_ema", value=0.0)
            self._keep(average)
            names = ("ema_start", "ema_end", "ema_step", "ema_alpha")
            net.EMA([param, average, iteration], [param, average], **{name: getattr(self, name) for name in names})
        if self.weight_scale is not None:
            given = self.weight_scale
            options = {"stepsize": given.stepsize, "upper_bound_iter": given.upper_bound_iter}
            for blob in (param, squares) if given.to_aux else (param,):
                net.WeightScale([blob, iteration], [blob], **options, scale=float(given.scale))

    def scale_learning_rate(self, scale: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Scale the base of the learning rate."""
        self.alpha *= scale
