"""The loss of a logistic regression over a batch, with all that one may want to add to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers._labelled import require_label
from caffe2.python.layers._row_weight import weighted
from caffe2.python.layers.layers import ModelLayer
from caffe2.python.layers.tags import Tags


class BatchLRLoss(ModelLayer):
    """The mean cross entropy of logits with labels, or the sum.

    In this order, each where it is asked for: labels are smoothed; the loss is focal; it decays from step to step; the
    Jensen-Shannon divergence of prediction and label is mixed in; a column `log_variance` says how certain each row is;
    a column `weight` has a factor for each row.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "batch_lr_loss",
        average_loss: bool = True,
        jsd_weight: float = 0.0,
        pos_label_target: float = 1.0,
        neg_label_target: float = 0.0,
        homotopy_weighting: bool = False,
        log_D_trick: bool = False,
        unjoined_lr_loss: bool = False,
        uncertainty_penalty: float = 1.0,
        focal_gamma: float = 0.0,
        stop_grad_in_focal_factor: bool = False,
        task_gamma: float = 1.0,
        task_gamma_lb: float = 0.1,
        **kwargs: Any,
    ) -> None:
        """Add a layer on the columns `label` (N) and `logit` (N, 1), for some of these things also `prediction` (N, 1).

        Args:
            model: a `LayerModelHelper`.
            input_record: the columns.
            name: of the layer.
            average_loss: whether it is the mean; else the sum.
            jsd_weight: of the divergence, from 0 to 1; the cross entropy has the rest.
            pos_label_target: what labels above a half become.
            neg_label_target: what others become.
            homotopy_weighting: whether the divergence comes in slowly instead, over a thousand million steps.
            log_D_trick: an argument of the operator.
            unjoined_lr_loss: another one; not both.
            uncertainty_penalty: of `log_variance`.
            focal_gamma: the power of (label (1 - p) + p (1 - label)), 0 for none.
            stop_grad_in_focal_factor: whether that factor gets no gradient.
            task_gamma: what the loss is multiplied by in each step once more, if below 1.
            task_gamma_lb: below which that never falls.
            kwargs: kept.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.average_loss = average_loss
        require_label(input_record, "logit")
        assert 0 <= jsd_weight <= 1, f"jsd_weight = {jsd_weight} must lie from 0 to 1"
        self.jsd_fuse = jsd_weight > 0 or homotopy_weighting
        if self.jsd_fuse:
            assert "prediction" in input_record, f"{input_record} lacks prediction"
            self.init_weight(jsd_weight, homotopy_weighting)
        self.homotopy_weighting = homotopy_weighting
        assert 0 <= neg_label_target <= pos_label_target <= 1, (
            f"0 <= neg_label_target = {neg_label_target} <= pos_label_target = {pos_label_target} <= 1"
        )
        self.pos_label_target, self.neg_label_target = pos_label_target, neg_label_target
        assert not (log_D_trick and unjoined_lr_loss), "log_D_trick and unjoined_lr_loss exclude each other"
        self.log_D_trick, self.unjoined_lr_loss = log_D_trick, unjoined_lr_loss
        assert uncertainty_penalty >= 0, f"uncertainty_penalty = {uncertainty_penalty} must not be below 0"
        self.uncertainty_penalty = uncertainty_penalty
        self.tags.update([Tags.EXCLUDE_FROM_PREDICTION])
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))
        self.focal_gamma = focal_gamma
        self.stop_grad_in_focal_factor = stop_grad_in_focal_factor
        self.apply_exp_decay = task_gamma < 1.0
        if self.apply_exp_decay:
            self.task_gamma_cur = self._number("task_gamma_cur", 1.0)
            self.task_gamma = self._number("task_gamma", task_gamma)
            self.task_gamma_lb = self._number("task_gamma_lb", task_gamma_lb)

    def _number(self, name: str, value: float, kind: int = core.DataType.FLOAT) -> Any:
        """Return a new blob of one number, which no optimizer updates."""
        fill = ("ConstantFill", {"value": value, "dtype": kind})
        return self.create_param(f"{self.name}_{name}", [1], fill, self.model.NoOptim)

    def init_weight(self, jsd_weight: float, homotopy_weighting: bool) -> None:
        """Make the weights of divergence and cross entropy."""
        if homotopy_weighting:
            self.mutex = self.create_param(f"{self.name}_mutex", None, ("CreateMutex",), self.model.NoOptim)
            self.counter = self._number("counter", 0, core.DataType.INT64)
            self.xent_weight = self._number("xent_weight", 1.0)
            self.jsd_weight = self._number("jsd_weight", 0.0)
        else:
            add = self.model.add_global_constant
            self.jsd_weight = add(f"{self.name}_jsd_weight", jsd_weight)
            self.xent_weight = add(f"{self.name}_xent_weight", 1.0 - jsd_weight)

    def update_weight(self, net: Any) -> tuple[Any, Any]:
        """Add what makes the weights of a step: (1 + step / 1e6)^-0.1 and the rest."""
        net.AtomicIter([self.mutex, self.counter], [self.counter])
        net.LearningRate([self.counter], [self.xent_weight], base_lr=1.0, policy="inv", gamma=1e-6, power=0.1)
        net.Sub([self.model.global_constants["ONE"], self.xent_weight], [self.jsd_weight])
        return self.xent_weight, self.jsd_weight

    def _label(self, net: Any) -> Any:
        """Return the labels (N, 1), smoothed; they are cast whatever the record says of their type."""
        label = net.Cast(self.input_record.label(), net.NextScopedBlob("label_float32"), to=core.DataType.FLOAT)
        label = net.ExpandDims(label, net.NextScopedBlob("expanded_label"), dims=[1])
        if (self.neg_label_target, self.pos_label_target) == (0.0, 1.0):
            return label
        return net.StumpFunc(
            label,
            net.NextScopedBlob("smoothed_label"),
            threshold=0.5,
            low_value=self.neg_label_target,
            high_value=self.pos_label_target,
        )

    def _focal(self, net: Any, loss: Any, label: Any) -> Any:
        """Return the loss times (y + p - 2 y p)^gamma."""
        prediction = self.input_record.prediction()
        total = net.Add([prediction, label], net.NextScopedBlob("y_plus_p"))
        product = net.Mul([prediction, label], net.NextScopedBlob("yp"))
        twice = net.Scale(product, net.NextScopedBlob("two_yp"), scale=2.0)
        wrong = net.Sub([total, twice], net.NextScopedBlob("y_plus_p_sub_two_yp"))
        factor = net.Pow(wrong, net.NextScopedBlob("y_plus_p_sub_two_yp_power"), exponent=float(self.focal_gamma))
        if self.stop_grad_in_focal_factor is True:
            factor = net.StopGradient([factor], [net.NextScopedBlob("focal_factor_stop_gradient")])
        return net.Mul([loss, factor], net.NextScopedBlob("focallossxent"))

    def _decayed(self, net: Any, loss: Any) -> Any:
        """Return the loss times what is left of it in this step."""
        net.Mul([self.task_gamma_cur, self.task_gamma], self.task_gamma_cur)
        left = net.Max([self.task_gamma_cur, self.task_gamma_lb], net.NextScopedBlob("task_gamma_cur_multiplier"))
        return net.Mul([loss, left], net.NextScopedBlob("expdecayxent"))

    def _mixed(self, net: Any, loss: Any, label: Any) -> Any:
        """Return the loss with the divergence mixed in."""
        divergence = net.BernoulliJSD([self.input_record.prediction(), label], net.NextScopedBlob("jsd"))
        if self.homotopy_weighting:
            self.update_weight(net)
        return net.WeightedSum([loss, self.xent_weight, divergence, self.jsd_weight], net.NextScopedBlob("loss"))

    def _uncertain(self, net: Any, loss: Any) -> Any:
        """Return (exp(-s) loss + penalty s) / 2 for the logarithm s of a variance; exp(88) is still a number."""
        s = net.ExpandDims(self.input_record.log_variance(), net.NextScopedBlob("expanded_log_variance"), dims=[1])
        opposite = net.Negative([s], net.NextScopedBlob("neg_log_variance"))
        opposite = net.Clip([opposite], net.NextScopedBlob("clipped_neg_log_variance"), max=88.0)
        certainty = net.Exp([opposite], net.NextScopedBlob("exp_neg_log_variance"))
        scaled = net.Mul([certainty, loss], net.NextScopedBlob("exp_neg_log_variance_loss"))
        penalty = net.Scale(s, net.NextScopedBlob("penalized_unceratinty"), scale=float(self.uncertainty_penalty))
        twice = net.Add([scaled, penalty], net.NextScopedBlob("loss"))
        return net.Scale(twice, net.NextScopedBlob("loss"), scale=0.5)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        label = self._label(net)
        loss = net.SigmoidCrossEntropyWithLogits(
            [self.input_record.logit(), label],
            net.NextScopedBlob("cross_entropy"),
            log_D_trick=self.log_D_trick,
            unjoined_lr_loss=self.unjoined_lr_loss,
        )
        if self.focal_gamma != 0:
            label = net.StopGradient([label], [net.NextScopedBlob("label_stop_gradient")])
            loss = self._focal(net, loss, label)
        if self.apply_exp_decay:
            loss = self._decayed(net, loss)
        if self.jsd_fuse:
            loss = self._mixed(net, loss, label)
        if "log_variance" in self.input_record.fields:
            loss = self._uncertain(net, loss)
        loss = weighted(net, self.input_record, loss, "weighted_cross_entropy")
        join = net.AveragedLoss if self.average_loss else net.ReduceFrontSum
        join(loss, self.output_schema.field_blobs())
