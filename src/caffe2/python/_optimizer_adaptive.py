"""Optimizers that keep something of each gradient: sums of squares, moments."""

from __future__ import annotations

from typing import Any

from caffe2.python import core, utils
from caffe2.python._optimizer_base import Optimizer, constant, filled, for_each_row, one_of_device


class WngradOptimizer(Optimizer):
    """Adagrad with one number for a whole parameter."""

    def __init__(
        self,
        alpha: float = 1.0,
        epsilon: float = 1e-9,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        engine: str = "",
        moment_init: float = 100.0,
        lars: float | None = None,
        output_effective_lr: bool = False,
        output_effective_lr_and_update: bool = False,
        **kwargs: Any,
    ) -> None:
        """Take what the learning rate starts from, and what the number starts from."""
        super().__init__()
        self.alpha = alpha
        self.epsilon = epsilon
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.engine = engine
        self.moment_init = moment_init
        self.lars = lars
        self.output_effective_lr = output_effective_lr
        self.output_effective_lr_and_update = output_effective_lr_and_update
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        self._scale_by_lars(net, param_init_net, param, grad, self.lars)
        rate, _ = self.build_lr(net, param_init_net, self.alpha, policy=self.policy, **self.init_kwargs)
        moment = constant(param_init_net, str(param) + "_moment", self.moment_init)
        self._keep(moment)
        options = {"epsilon": self.epsilon, "engine": self.engine}
        if isinstance(grad, core.GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseWngrad([param, moment, grad.indices, grad.values, rate], [param, moment], **options)
            return
        outputs = [param, moment]
        if self.output_effective_lr or self.output_effective_lr_and_update:
            outputs.append(str(param) + "_effective_lr")
        if self.output_effective_lr_and_update:
            outputs.append(str(param) + "_update")
        net.Wngrad([param, moment, grad, rate], outputs, **options)

    def scale_learning_rate(self, scale: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Scale the base of the learning rate."""
        self.alpha *= scale


class StormOptimizer(Optimizer):
    """Momentum that corrects itself."""

    def __init__(
        self,
        lr: float = 0.1,
        momentum: float = 10.0,
        beta: float = 0.1,
        grad_sq_init: float = 0.01,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        lars: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what the learning rate starts from, and what the sum of squares starts from."""
        super().__init__()
        self.lr = lr
        self.momentum = momentum
        self.beta = beta
        self.grad_sq_init = grad_sq_init
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.lars = lars
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.lr <= 0:
            return
        self._scale_by_lars(net, param_init_net, param, grad, self.lars)
        rate, _ = self.build_lr(net, param_init_net, self.lr, policy=self.policy, **self.init_kwargs)
        kept = [filled(param_init_net, param, "_moment", value=0.0)]
        kept.append(constant(param_init_net, str(param) + "_grad_sq_sum", self.grad_sq_init))
        self._keep(*kept)
        options = {"momentum": self.momentum, "beta": self.beta}
        if isinstance(grad, core.GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseStorm([param, *kept, grad.values, grad.indices, rate], [param, *kept], **options)
        else:
            net.Storm([param, *kept, grad, rate], [param, *kept], **options)

    def scale_learning_rate(self, scale: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Scale the base of the learning rate."""
        self.lr *= scale


class AdadeltaOptimizer(Optimizer):
    """Steps as large as the steps before, beside the gradients before."""

    def __init__(
        self,
        alpha: float = 0.01,
        epsilon: float = 1e-4,
        decay: float = 0.95,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        engine: str = "",
        **kwargs: Any,
    ) -> None:
        """Take what the learning rate starts from, and the decay of both means."""
        super().__init__()
        self.alpha = alpha
        self.epsilon = epsilon
        self.decay = decay
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.engine = engine
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        rate, _ = self.build_lr(net, param_init_net, self.alpha, policy=self.policy, **self.init_kwargs)
        ends = ("_squared_moment", "_squared_moment_update")
        kept = [filled(param_init_net, param, end, value=0.0) for end in ends]
        self._keep(*kept)
        options = {"epsilon": self.epsilon, "decay": self.decay, "engine": self.engine}
        if isinstance(grad, core.GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseAdadelta([param, *kept, grad.indices, grad.values, rate], [param, *kept], **options)
        else:
            net.Adadelta([param, *kept, grad, rate], [param, *kept], **options)

    def scale_learning_rate(self, scale: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Scale the base of the learning rate."""
        self.alpha *= scale


class FtrlOptimizer(Optimizer):
    """Follows the regularized leader; needs no learning rate."""

    def __init__(
        self,
        alpha: float = 0.01,
        beta: float = 1e-4,
        lambda1: float = 0,
        lambda2: float = 0,
        sparse_dedup_aggregator: str | None = None,
        engine: str = "",
    ) -> None:
        """Take the constants of the operator."""
        super().__init__()
        self.alpha = alpha
        self.beta = beta
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.engine = engine

    def _constants(self) -> dict[str, Any]:
        names = ("engine", "alpha", "beta", "lambda1", "lambda2")
        return {name: getattr(self, name) for name in names}

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        kept = filled(param_init_net, param, "_ftrl_nz", extra_shape=[2], value=0.0)
        self._keep(kept)
        if isinstance(grad, core.GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            net.SparseFtrl([param, kept, grad.indices, grad.values], [param, kept], **self._constants())
        else:
            net.Ftrl([param, kept, grad], [param, kept], **self._constants())

    def scale_learning_rate(self, scale: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Scale the base of the learning rate."""
        self.alpha *= scale


class GFtrlOptimizer(FtrlOptimizer):
    """Ftrl in groups; of whole parameters only."""

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        kept = filled(param_init_net, param, "_gftrl_nz", extra_shape=[2], value=0.0)
        self._keep(kept)
        if isinstance(grad, core.GradientSlice):
            raise TypeError(f"GFtrl takes no gradient of rows, and that of {param} is one")
        net.GFtrl([param, kept, grad], [param, kept], **self._constants())


class AdamOptimizer(Optimizer):
    """Steps by estimates of the first two moments of a gradient."""

    def __init__(
        self,
        alpha: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        policy: str = "fixed",
        use_lr_adaption: bool = False,
        lr_alpha: float = 0.01,
        normalized_lr_adaption: bool = True,
        sparse_dedup_aggregator: str | None = None,
        rowWise: bool = False,
        engine: str = "",
        enableRAdam: bool = False,
        **kwargs: Any,
    ) -> None:
        """Take what the learning rate starts from, and the decays of the estimates."""
        super().__init__()
        self.alpha = alpha
        self.beta1 = beta1
        self.beta2 = beta2
        self.epsilon = epsilon
        self.policy = policy
        self.use_lr_adaption = use_lr_adaption
        self.lr_alpha = lr_alpha
        self.normalized_lr_adaption = normalized_lr_adaption
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.rowWise = rowWise
        self.engine = engine
        self.enableRAdam = enableRAdam
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        if self.alpha <= 0:
            return
        rate, iteration = self.build_lr(net, param_init_net, self.alpha, policy=self.policy, **self.init_kwargs)
        kept = [filled(param_init_net, param, "_first_moment", value=0.0)]
        if self.rowWise:
            kept.append(for_each_row(param_init_net, param, "_avg_second_moment", 0.0))
        else:
            kept.append(filled(param_init_net, param, "_second_moment", value=0.0))
        self._aux_params.shared.append(iteration)
        self._keep(*kept)
        if isinstance(grad, core.GradientSlice):
            grad = self.dedup(net, self.sparse_dedup_aggregator, grad)
            inputs, values = [grad.indices, grad.values], grad.values
        else:
            inputs, values = [grad], grad
        op_type, options = self._operator(isinstance(grad, core.GradientSlice))
        outputs = [param, *kept]
        if self.use_lr_adaption:
            outputs.append(str(param) + "_effective_grad")
        getattr(net, op_type)([param, *kept, *inputs, rate, iteration], outputs, **options)
        if self.use_lr_adaption:
            adaption = {"lr_alpha": self.lr_alpha, "normalized_lr_adaption": self.normalized_lr_adaption}
            net.LearningRateAdaption([rate, values, outputs[-1]], [rate], **adaption)

    def _operator(self, of_rows: bool) -> tuple[str, dict[str, Any]]:
        """Return the type of the operator, and its arguments."""
        options: dict[str, Any] = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        if not of_rows:
            assert not self.rowWise, (
                "If SparseAdam with rowWise=True, gradient must be a gradientslice. "
                "Please ensure that rowWise is not enabled for the dense Adam optimizer, as it is not supported."
            )
            return "Adam", options
        if self.rowWise:
            assert not self.enableRAdam, "RowWiseSparseAdam does not support enableRAdam"
            return "RowWiseSparseAdam", options
        return "SparseAdam", {**options, "enableRAdam": self.enableRAdam}

    def scale_learning_rate(self, scale: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Scale the base of the learning rate."""
        self.alpha *= scale


class YellowFinOptimizer(Optimizer):
    """Finds its learning rate and its momentum by itself; of whole parameters only."""

    def __init__(
        self,
        alpha: float = 0.1,
        mu: float = 0.0,
        beta: float = 0.999,
        curv_win_width: int = 20,
        zero_debias: bool = True,
        epsilon: float = 0.1**6,
        policy: str = "fixed",
        sparse_dedup_aggregator: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take what both start from, and the constants of the operator."""
        super().__init__()
        self.alpha = alpha
        self.mu = mu
        self.beta = beta
        self.curv_win_width = curv_win_width
        self.zero_debias = zero_debias
        self.epsilon = epsilon
        self.policy = policy
        self.sparse_dedup_aggregator = sparse_dedup_aggregator
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        moment = filled(param_init_net, param, "_moment", value=0.0)
        window = constant(param_init_net, str(param) + "_curv_win", 0.0, shape=[self.curv_win_width])
        means = [filled(param_init_net, param, end, value=0.0) for end in ("_g_avg", "_g2_avg")]
        rate = constant(param_init_net, str(param) + "_lr_avg", self.alpha)
        mu = constant(param_init_net, str(param) + "_mu_avg", self.mu)
        memory = constant(param_init_net, str(param) + "_scalars_memory", 0.0, shape=[5])
        assert self.alpha > 0
        assert not isinstance(grad, core.GradientSlice), "YellowFin does not support sparse gradients"
        iteration = utils.BuildUniqueMutexIter(param_init_net, net, iter_val=0)
        self._aux_params.shared.append(iteration)
        kept = [moment, rate, mu, window, *means, memory]
        self._keep(*kept)
        net.YellowFin(
            [param, *kept, grad, iteration],
            [param, *kept],
            beta=self.beta,
            epsilon=self.epsilon,
            curv_win_width=self.curv_win_width,
            zero_debias=self.zero_debias,
        )

    def scale_learning_rate(self, scale: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Scale what the learning rate starts from."""
        self.alpha *= scale


class RmsPropOptimizer(Optimizer):
    """Divides gradients by the root of their mean square; of whole parameters only."""

    def __init__(
        self,
        alpha: float = 0.01,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-5,
        policy: str = "fixed",
        engine: str = "",
        **kwargs: Any,
    ) -> None:
        """Take what the learning rate starts from, and the decay of the mean."""
        super().__init__()
        self.alpha = alpha
        self.decay = decay
        self.momentum = momentum
        self.epsilon = epsilon
        self.policy = policy
        self.engine = engine
        self.init_kwargs = kwargs

    def _run(self, net: Any, param_init_net: Any, param_info: Any) -> None:
        param, grad = param_info.blob, param_info.grad
        assert self.alpha > 0
        assert not isinstance(grad, core.GradientSlice), "RmsPropOptimizer doesn't support sparse gradients"
        one = one_of_device(param_init_net, with_node=False)
        rate, _ = self.build_lr(net, param_init_net, -self.alpha, policy=self.policy, **self.init_kwargs)
        ends = ("_grad_o", "_mean_squares", "_momentum")
        step, squares, momentum = (filled(param_init_net, param, end, values=0.0) for end in ends)
        net.RmsProp(
            [grad, squares, momentum, one],
            [step, squares, momentum],
            decay=self.decay,
            momentum=self.momentum,
            epsilon=self.epsilon,
            engine=self.engine,
        )
        net.MomentumSGDUpdate([step, momentum, rate, param], [step, momentum, param])
        self._keep(squares, momentum)

    def scale_learning_rate(self, scale: float) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Scale the base of the learning rate."""
        self.alpha *= scale
