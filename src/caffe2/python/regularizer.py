"""Regularizers of parameters: a term of the loss, or a constraint that is kept behind each update.

W is the parameter. A regularizer is called twice for each: `by` `RegularizationBy.ON_LOSS` (it returns a blob, a term
of the loss, or None) and by `AFTER_OPTIMIZER` (it changes W, or leaves it).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, utils


class RegularizationBy:
    """When a regularizer is called."""

    AFTER_OPTIMIZER = "after_optimizer"
    ON_LOSS = "on_loss"


class Regularizer:
    """Base of all: none."""

    def __init__(self) -> None:
        """Take the least value of what must be positive."""
        self.kEpsilon = 1e-9

    def __call__(self, net: Any, param_init_net: Any, param: Any, grad: Any = None, by: str | None = None) -> Any:
        """Add what it does with a parameter to a net; return a term of the loss, or None."""
        assert isinstance(param, core.BlobReference), f"a parameter is a blob, not {param!r}"
        kinds = {
            RegularizationBy.AFTER_OPTIMIZER: self._run_after_optimizer,
            RegularizationBy.ON_LOSS: self._run_on_loss,
        }
        assert by in kinds, f"Regularizer of type {type(self)} is called with invalid by={by}, not in {[*kinds]}"
        return kinds[by](net, param_init_net, param, grad)

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        return None

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        return None

    def _feature_grouping(self, param: Any, net: Any) -> Any:
        """Return the length of each column of W: (R, M) -> M."""
        squares = net.Mul([param, param], net.NextScopedBlob("param_mul"))
        sums = net.ReduceFrontSum(squares, net.NextScopedBlob("param_reduced"))
        return net.Pow(sums, net.NextScopedBlob("grouped_feature_weight_vec"), exponent=0.5)

    def _ensure_clipped(
        self,
        net: Any,
        param: Any,
        grad: Any = None,
        min: float | None = None,
        max: float | None = None,
        open_range: bool = False,
        left_open: bool = False,
        right_open: bool = False,
    ) -> None:
        """Keep W, or the rows that an update had, in a range; an open end stays away from its bound."""
        least = None if min is None else min + (self.kEpsilon if open_range or left_open else 0.0)
        most = None if max is None else max - (self.kEpsilon if open_range or right_open else 0.0)
        bounds = {name: value for name, value in (("min", least), ("max", most)) if value is not None}
        rows = [grad.indices, grad.values] if isinstance(grad, core.GradientSlice) else []
        net.EnsureClipped([param, *rows], [param], **bounds)


def _scaled(net: Any, blob: Any, scale: float) -> Any:
    net.Scale([blob], [blob], scale=float(scale))
    return blob


def _trimmed(net: Any, param: Any, k: int, output: Any) -> Any:
    """Add the sum of |W| without its k largest elements."""
    sizes = net.Abs([param], [net.NextScopedBlob("abs")])
    whole = net.SumElements([sizes], [net.NextScopedBlob("sum_abs")], average=False)
    largest, _, _ = net.TopK([sizes], [net.NextScopedBlob(name) for name in ("topk", "id", "flat_id")], k=k)
    trimmed = net.SumElements([largest], [net.NextScopedBlob("topk_sum")], average=False)
    return net.Sub([whole, trimmed], [output])


class L1Norm(Regularizer):
    """reg_lambda * sum |W|."""

    def __init__(self, reg_lambda: float) -> None:
        """Take the weight of the term."""
        super().__init__()
        assert reg_lambda >= 0, "factor ahead of regularization should be 0 or positive"
        self.reg_lambda = reg_lambda

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        output = net.NextScopedBlob(f"{param}_l1_regularization")
        net.LpNorm([param], [output], p=1)
        return _scaled(net, output, self.reg_lambda)


class LpNorm(Regularizer):
    """reg_lambda * (sum over columns of length^p)^(1/p)."""

    def __init__(self, reg_lambda: float, p_value: float = 0.5) -> None:
        """Take the weight of the term, and the power."""
        super().__init__()
        assert reg_lambda > 0, "factor ahead of regularization should be greater than 0"
        assert p_value > 0, "p_value factor should be greater than 0"
        self.p_value = p_value
        self.reg_lambda = reg_lambda

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        output = net.NextScopedBlob(f"{param}_dense_feature_regularization")
        columns = self._feature_grouping(param, net)
        raised = net.Pow(columns, net.NextScopedBlob("lp_vec_raised"), exponent=self.p_value)
        summed = net.ReduceFrontSum(raised, net.NextScopedBlob("lp_vec_summed"))
        norm = net.Pow(summed, net.NextScopedBlob("lp_vec"), exponent=1 / self.p_value)
        return net.Scale([norm], [output], scale=float(self.reg_lambda))


class L0ApproxNorm(Regularizer):
    """reg_lambda * max(0, sum over columns of min(length, alpha) / alpha - budget): about how many are not 0."""

    def __init__(self, reg_lambda: float, alpha: float = 0.01, budget: float = 0) -> None:
        """Take the weight of the term, from which length a column counts as 1, and how many are free."""
        super().__init__()
        assert reg_lambda > 0, "factor ahead of regularization should be greater than 0"
        assert alpha > 0, "alpha factor must be a positive value greater than 0"
        assert budget >= 0, "budget factor must be greater than or equal to 0"
        self.reg_lambda = reg_lambda
        self.alpha = alpha
        self.budget = float(budget)

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        output = net.NextScopedBlob(f"{param}_dense_feature_regularization")
        columns = self._feature_grouping(param, net)
        sizes = net.Abs(columns, net.NextScopedBlob("l0_abs"))
        least = net.Clip(sizes, net.NextScopedBlob("l0_min"), max=self.alpha)
        summed = net.ReduceFrontSum(least, net.NextScopedBlob("l0_summed"))
        norm = net.Scale([summed], [net.NextScopedBlob("l0_norm")], scale=1 / self.alpha)
        if self.budget:
            budget = net.ConstantFill([], "budget", shape=[1], value=self.budget)
            over = net.Sub([norm, budget], [net.NextScopedBlob("l0_budget")])
            norm = net.Relu([over], [net.NextScopedBlob("relu_l0_sub_budget")])
        return net.Scale([norm], [output], scale=float(self.reg_lambda))


class L1NormTrimmed(Regularizer):
    """reg_lambda * sum |W| without the k largest (Yun et al. 2019, trimming the l1 regularizer)."""

    def __init__(self, reg_lambda: float, k: int) -> None:
        """Take the weight of the term, and how many elements are free."""
        super().__init__()
        assert reg_lambda >= 0, "factor ahead of regularization should be 0 or positive"
        assert isinstance(k, int), "k should be an interger as expected #. after selection"
        assert k >= 1, "k should be larger than 1"
        self.reg_lambda = reg_lambda
        self.k = k

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        output = net.NextScopedBlob(f"{param}_l1_trimmed_regularization")
        return _scaled(net, _trimmed(net, param, self.k, output), self.reg_lambda)


class L2Norm(Regularizer):
    """reg_lambda * sum W^2."""

    def __init__(self, reg_lambda: float) -> None:
        """Take the weight of the term."""
        super().__init__()
        assert reg_lambda >= 0, "factor ahead of regularization should be 0 or positive"
        self.reg_lambda = reg_lambda

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        output = net.NextScopedBlob(f"{param}_l2_regularization")
        net.LpNorm([param], [output], p=2)
        return _scaled(net, output, self.reg_lambda)


class ElasticNet(Regularizer):
    """l1 * sum |W| + l2 * sum W^2."""

    def __init__(self, l1: float, l2: float) -> None:
        """Take the weights of both terms."""
        super().__init__()
        self.l1 = l1
        self.l2 = l2

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        output = net.NextScopedBlob(f"{param}_elastic_net_regularization")
        squares, sizes = (net.NextScopedBlob(f"{param}_{name}_blob") for name in ("l2", "l1"))
        net.LpNorm([param], [squares], p=2)
        net.LpNorm([param], [sizes], p=1)
        _scaled(net, squares, self.l2)
        _scaled(net, sizes, self.l1)
        return net.Add([sizes, squares], [output])


class ElasticNetL1NormTrimmed(Regularizer):
    """l1 * sum |W| without the k largest + l2 * sum W^2."""

    def __init__(self, l1: float, l2: float, k: int) -> None:
        """Take the weights of both terms, and how many elements are free of the first."""
        super().__init__()
        self.l1 = l1
        self.l2 = l2
        self.k = k

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        output = net.NextScopedBlob(f"{param}_elastic_net_l1_trimmed_regularization")
        squares = net.NextScopedBlob(f"{param}_l2_blob")
        net.LpNorm([param], [squares], p=2)
        _scaled(net, squares, self.l2)
        sizes = _trimmed(net, param, self.k, net.NextScopedBlob(f"{param}_l1_blob"))
        _scaled(net, sizes, self.l1)
        return net.Add([sizes, squares], [output])


def _rows(name: str, grad: Any) -> Any:
    """Return the indices of the rows that an update had."""
    if not isinstance(grad, core.GradientSlice):
        raise NotImplementedError(f"{name} is not supported for dense parameters")
    return grad.indices


class MaxNorm(Regularizer):
    """Rows that an update had are not longer than `norm`."""

    def __init__(self, norm: float = 1.0) -> None:
        """Take the greatest length of a row."""
        super().__init__()
        self.norm = norm

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        net.SparseNormalize([param, _rows("MaxNorm", grad)], [param], use_max_norm=True, norm=self.norm)


class ConstantNorm(Regularizer):
    """Rows that an update had have the length `norm`."""

    def __init__(self, norm: float = 1.0) -> None:
        """Take the length of a row."""
        super().__init__()
        self.norm = norm

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        net.SparseNormalize([param, _rows("ConstantNorm", grad)], [param], use_max_norm=False, norm=self.norm)


class SparseLpNorm(Regularizer):
    """Rows that an update had shrink: for p = 1 by a constant, for p = 2 by a share."""

    def __init__(self, p: float, reg_lambda: float) -> None:
        """Take the power, 1 or 2, and how much they shrink."""
        super().__init__()
        assert p in (1.0, 2.0), "Sparse Lp regularization only implemented for p = 1.0 and p = 2.0."
        assert reg_lambda > 0, "factor ahead of regularization should be greater than 0."
        self.p = p
        self.reg_lambda = reg_lambda

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        net.SparseLpRegularizer([param, _rows("SparseLpNorm", grad)], [param], p=self.p, reg_lambda=self.reg_lambda)


class SparseL1Norm(SparseLpNorm):
    """Rows that an update had shrink by a constant."""

    def __init__(self, reg_lambda: float) -> None:
        """Take the constant."""
        super().__init__(p=1.0, reg_lambda=reg_lambda)


class SparseL2Norm(SparseLpNorm):
    """Rows that an update had shrink by a share."""

    def __init__(self, reg_lambda: float) -> None:
        """Take the share."""
        super().__init__(p=2.0, reg_lambda=reg_lambda)


class LogBarrier(Regularizer):
    """-discount * sum log W, for W > 0, whose weight falls from step to step (Wright: numerical optimization, 19.6)."""

    def __init__(
        self, reg_lambda: float, discount_policy: str = "inv", discount_options: dict[str, Any] | None = None
    ) -> None:
        """Take the first weight of the term, and the policy of a learning rate by which it falls."""
        super().__init__()
        assert reg_lambda > 0, "factor ahead of regularization should be 0 or positive"
        self.reg_lambda = reg_lambda
        self.discount_policy = discount_policy
        self.discount_options = discount_options or {"gamma": 1.0, "power": 1.0}

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        iteration = utils.BuildUniqueMutexIter(param_init_net, net)
        discount = net.NextScopedBlob(f"{param}_log_barrier_discount")
        net.LearningRate(
            [iteration], [discount], base_lr=-self.reg_lambda, policy=self.discount_policy, **self.discount_options
        )
        positive = net.Clip([param], [net.NextScopedBlob(f"{param}_non_neg")], min=self.kEpsilon)
        logs = net.Log([positive], [net.NextScopedBlob(f"{param}_log")])
        summed = net.SumElements([logs], [net.NextScopedBlob(f"{param}_log_sum")])
        return net.Mul([summed, discount], [net.NextScopedBlob(f"{param}_log_barrier")], broadcast=1)

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        self._ensure_clipped(net, param, grad, min=0, open_range=True)


class BoundedGradientProjection(Regularizer):
    """W stays in a range (Bertsekas: nonlinear programming, 2.3); an open end is `epsilon` away from its bound."""

    def __init__(
        self,
        lb: float | None = None,
        ub: float | None = None,
        left_open: bool = False,
        right_open: bool = False,
        epsilon: float | None = None,
    ) -> None:
        """Take the bounds, of which either may be left out."""
        super().__init__()
        lb = None if lb is None else float(lb)
        ub = None if ub is None else float(ub)
        epsilon = self.kEpsilon if epsilon is None else float(epsilon)
        assert epsilon > 0, f"Bounded Gradient Projection with invalid eps={epsilon}"
        if lb is not None and ub is not None:
            room = ub - (epsilon if right_open else 0.0) - lb - (epsilon if left_open else 0.0)
            assert room >= 0, f"Bounded Gradient Projection with invalid [ub={ub}, lb={lb}], eps={epsilon}"
        self.left_open = left_open
        self.right_open = right_open
        self.kEpsilon = epsilon
        self.lb = lb
        self.ub = ub

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        self._ensure_clipped(
            net, param, grad, min=self.lb, max=self.ub, left_open=self.left_open, right_open=self.right_open
        )


class GroupL1Norm(Regularizer):
    """Sum over groups of columns of reg_lambda * sqrt(size) * length (Scardapane et al. 2016, group sparsity)."""

    def __init__(self, reg_lambda: float, groups: list[int], stabilizing_val: float = 0) -> None:
        """Take the weight of the term, the sizes of groups, and what is added to squares under the root."""
        super().__init__()
        assert reg_lambda >= 0, "regularization weight should be 0 or positive"
        assert isinstance(groups, list), "groups needs to be a list"
        self.reg_lambda = reg_lambda
        self.groups = groups
        self.stabilizing_val = stabilizing_val

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        columns = net.ReduceSum(net.Sqr(param), axes=[0], keepdims=0)
        squares = net.LengthsSum([columns, net.Const(np.array(self.groups, np.int32))])
        if self.stabilizing_val:
            net.Add([squares, net.ConstantFill([], 1, value=self.stabilizing_val)], [squares], broadcast=1)
        lengths = net.Sqrt(squares)
        weights = np.sqrt(self.groups) * self.reg_lambda
        factors = net.GivenTensorFill([], shape=[len(self.groups)], values=weights.astype(np.float32).tolist())
        scaled = net.Mul([lengths, factors], ["normalized_l2_norm_scaled"])
        return net.LpNorm(scaled, ["group_l1_nrom"], p=1)
