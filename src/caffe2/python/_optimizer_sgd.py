"""Stochastic gradient descent, plain and in half precision, and weight decay."""

from __future__ import annotations

from typing import Any

from caffe2.python import core
from caffe2.python._optimizer_base import Optimizer, constant, device_name, filled, one_of_device


class SgdOptimizer(Optimizer):
    """parameter -= rate * gradient, with momentum if wanted."""

    def __init__(
        self,
        base_learning_rate: float = 0.01,
        policy: str = "fixed",
        momentum: float = 0.0,
        nesterov: bool = True,
        sparse_dedup_aggregator: str | None = None,
        lars: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what the learning rate starts from, its policy with its arguments, and the momentum."""
        super().__init__()
        self.base_learning_rate = base_learning_rate
        self.policy = policy
        self.momentum = momentum
        self.nesterov = nesterov
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.lars = lars
        self.init_kwargs = kwargs

    def _positive(self) -> bool:
        """Whether there is anything to learn."""
        if self.base_learning_rate == 0:
            return False
        assert self.base_learning_rate > 0, f"Expect positive base learning rate, got {self.base_learning_rate}"
        return True

    def _rate(self, net: Any, param_init_net: Any, sign: int) -> Any:
        base = sign * self.base_learning_rate
        return self.build_lr(net, param_init_net, base, policy=self.policy, **self.init_kwargs)[0]

    def _moved(self, net: Any, op_type: str, grad: Any, momentum: Any, rate: Any, param: Any, **more: Any) -> None:
        """Add an update with momentum."""
        arguments = {"momentum": self.momentum, "nesterov": self.nesterov, **more}
        getattr(net, op_type)([grad, momentum, rate, param], [grad, momentum, param], **arguments)

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        if not self._positive():
            return
        self._scale_by_lars(net, param_init_net, param, grad, self.lars)
        # MomentumSGDUpdate subtracts, the others add.
        rate = self._rate(net, param_init_net, -1 if self.momentum else 1)
        one = one_of_device(param_init_net)
        self._aux_params.shared.append(one)
        momentum: Any = None
        if self.momentum > 0:
            momentum = filled(param_init_net, param, "_momentum", value=0.0)
            self._keep(momentum)
        if isinstance(grad, core.GradientSlice):
            self._of_rows(net, param, self.dedup(net, self.sparse_dedup_aggregator, grad), momentum, (one, rate))
        elif self.momentum > 0:
            self._moved(net, "MomentumSGDUpdate", grad, momentum, rate, param)
        else:
            net.WeightedSum([param, one, grad, rate], param)

    def _of_rows(self, net: Any, param: Any, grad: Any, momentum: Any, scales: tuple[Any, Any]) -> None:
        one, rate = scales
        if self.momentum > 0:
            outputs = [grad.values, momentum, param]
            options = {"momentum": self.momentum, "nesterov": self.nesterov}
            net.SparseMomentumSGDUpdate([grad.values, momentum, rate, param, grad.indices], outputs, **options)
        else:
            net.ScatterWeightedSum([param, one, grad.indices, grad.values, rate], param)

    def scale_learning_rate(self, scale: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Scale the base of the learning rate."""
        self.base_learning_rate *= scale


class MultiPrecisionSgdOptimizer(SgdOptimizer):
    """Updates in float32 what nets read in float16: parameters made by `PseudoFP16Initializer`."""

    def __init__(
        self,
        base_learning_rate: float = 0.1,
        momentum: float = 0.0,
        policy: str = "fixed",
        nesterov: bool = True,
        sparse_dedup_aggregator: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what `SgdOptimizer` takes."""
        super().__init__(
            base_learning_rate=base_learning_rate,
            policy=policy,
            momentum=momentum,
            nesterov=nesterov,
            sparse_dedup_aggregator=sparse_dedup_aggregator,
            **kwargs,
        )

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        if param_info.blob_copy is None:
            super()._run(net, param_init_net, param_info)
            return
        param, grad = param_info.blob, param_info.grad
        single = param_info.blob_copy[core.DataType.FLOAT]
        if not self._positive():
            return
        rate = self._rate(net, param_init_net, -1)
        momentum = param_init_net.ConstantFill(single, str(param) + "_momentum", value=0.0)
        self._keep(momentum)
        assert not isinstance(grad, core.GradientSlice), "MultiPrecisionSgd does not support sparse gradients"
        wide = net.HalfToFloat(grad, grad + "_fp32")
        self._moved(net, "MomentumSGDUpdate", wide, momentum, rate, single)
        net.FloatToHalf(single, param)


class FP16SgdOptimizer(SgdOptimizer):
    """Updates in float16, parameters of float32 beside them in float32; with weight decay."""

    def __init__(
        self,
        base_learning_rate: float = 0.1,
        momentum: float = 0.0,
        policy: str = "fixed",
        nesterov: bool = True,
        weight_decay: float = 0.0001,
        sparse_dedup_aggregator: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what `SgdOptimizer` takes, and the share of a weight that is added to its gradient."""
        super().__init__(
            base_learning_rate=base_learning_rate,
            policy=policy,
            momentum=momentum,
            nesterov=nesterov,
            sparse_dedup_aggregator=sparse_dedup_aggregator,
            **kwargs,
        )
        self.weight_decay = weight_decay

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad, copies = param_info.blob, param_info.grad, param_info.blob_copy
        if not self._positive():
            return
        rate = self._rate(net, param_init_net, -1)
        source = param if copies is None else copies[core.DataType.FLOAT]
        wide = param_init_net.ConstantFill(source, str(param) + "_momentum_fp32", value=0.0)
        momentum = param_init_net.FloatToHalf(wide, str(param) + "_momentum")
        self._keep(momentum)
        assert not isinstance(grad, core.GradientSlice), "FP16Sgd does not support sparse gradients"
        kind, kept = ("FP32", wide) if copies is None else ("FP16", momentum)
        self._moved(net, f"{kind}MomentumSGDUpdate", grad, kept, rate, param, weight_decay=self.weight_decay)


class WeightDecayBuilder(Optimizer):
    """gradient += weight_decay * weight."""

    def __init__(self, weight_decay: float) -> None:
        """Take the share."""
        super().__init__()
        self.weight_decay = weight_decay

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        one = one_of_device(param_init_net, with_node=False)
        decay = constant(param_init_net, "wd_" + device_name(with_node=False), self.weight_decay)
        if isinstance(param_info.grad, core.GradientSlice):
            raise ValueError("Weight decay does not yet support sparse gradients")
        net.WeightedSum([param_info.grad, one, param_info.blob, decay], param_info.grad)
