"""GroupNorm and its gradient, by layer and batch normalization.

Letters as in `ops.group_norm`, I = C/G * S the elements of a group of an image. In a batch of dense images (N, C, S...)
the groups are the rows of a matrix (N * G, I). So layer normalization computes the statistics and Z = (X - mean) *
inv_std; batch normalization with a mean of 0, a variance of 1 and an epsilon of 0 then does what differs by channel,
forward gamma * Z + beta, and backward dZ = gamma * dY and the sums dgamma and dbeta.

oneDNN speaks of the variance where the operators speak of inv_std = 1 / sqrt(variance + epsilon); small steps make one
of the other. Backward the variance is inv_std ** -2, with an epsilon of 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import Constant, Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.layer_norm import VARIANCE, affine_flags, describe_rows, describe_rows_backward, pointwise
from tazza.engines.onednn.layer_norm import statistics as per_row
from tazza.engines.onednn.library import constant
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import describe
from tazza.operator import LaidOut, OpView
from tazza.ops.group_norm import GROUP_NORM, GROUP_NORM_GRADIENT
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec

STANDARD: dict[str | int, Operand] = {"mean": Constant(0.0), "variance": Constant(1.0)}
"""Statistics with which batch normalization changes nothing but scale and shift."""


@dataclass(frozen=True)
class Groups:
    """A batch of images, dense with the channels first, and the rows that its groups are."""

    image: Descriptor
    rows: Descriptor
    layout: Layout
    """That of the blobs; not row-major with order NHWC."""

    @classmethod
    def of(cls, op: OpView, X: TensorSpec, group: int) -> Groups:
        """Return the groups of a blob X that is to lie so."""
        order = Order.of(op, X)
        N, C, *spatial = order.see(TensorSpec(X.shape, X.dtype)).dims
        image = Descriptor.of((N, C, *spatial), X.dtype)
        return cls(image, Descriptor.of((N * group, X.size // (N * group)), X.dtype), order.layout(image))

    @property
    def statistics(self) -> Descriptor:
        """One float32 number for each group of each image."""
        return per_row(self.rows)

    def affine(self, scale: str, shift: str) -> PrimitiveLaunch:
        """Return what computes Y = scale * Y + shift by channel, in place."""
        flags = affine_flags() | constant("dnnl_use_global_stats")
        operation = "batch_normalization_forward"
        found = describe(operation, "forward_inference", self.image, self.image, 0.0, flags)
        return PrimitiveLaunch(found, {**STANDARD, "src": "Y", "dst": "Y", "scale": scale, "shift": shift})

    def affine_backward(self, arguments: dict[str | int, Operand]) -> PrimitiveLaunch:
        """Return the gradient of that: diff_src = scale * diff_dst, and the sums diff_scale and diff_shift."""
        flags, image = affine_flags() | constant("dnnl_use_global_stats"), self.image
        forward = describe("batch_normalization_forward", "forward_training", image, image, 0.0, flags)
        operation = "batch_normalization_backward"
        found = describe(operation, "backward", image, image, image, 0.0, flags, forward)
        return PrimitiveLaunch(found, {**STANDARD, **arguments})


def normalize_groups(
    groups: Groups, epsilon: float, scale: str, shift: str, mean: Operand, inv_std: Operand
) -> tuple[PrimitiveLaunch, ...]:
    """Return the steps from X to Y, mean and inv_std; a `Part` stands for one that is not asked for."""
    found = describe_rows(groups.rows, training=True, epsilon=epsilon, flags=0)
    one = groups.statistics
    return (
        PrimitiveLaunch(found, {"src": "X", "dst": "Y", "mean": mean, "variance": inv_std}),
        groups.affine(scale, shift),
        *inverse_roots(one, epsilon, inv_std),
    )


def inverse_roots(one: Descriptor, epsilon: float, variance: Operand) -> tuple[PrimitiveLaunch, ...]:
    """Return the steps that make inv_std of the variance, in place; none where that is a `Part`."""
    if isinstance(variance, Part):
        return ()
    return (
        pointwise("eltwise_linear", 1.0, epsilon, one, variance, variance),
        pointwise("eltwise_pow", 1.0, -0.5, one, variance, variance),
    )


def normalize_groups_backward(groups: Groups, scale: str, dscale: str, dshift: str) -> tuple[PrimitiveLaunch, ...]:
    """Return the steps from X, dY, mean and inv_std to dX and the gradients of scale and shift.

    Z is kept in the memory of dX until the last step.
    """
    known = constant("dnnl_use_global_stats")
    given: dict[str | int, Operand] = {"src": "X", "mean": "mean", "variance": VARIANCE}
    dz = Part("dZ")
    affine: dict[str | int, Operand] = {"scale": scale, "diff_scale": dscale, "diff_shift": dshift}
    return (
        pointwise("eltwise_pow", 1.0, -2.0, groups.statistics, "inv_std", VARIANCE),
        PrimitiveLaunch(describe_rows(groups.rows, training=False, epsilon=0.0, flags=known), {**given, "dst": "dX"}),
        groups.affine_backward({"src": "dX", "diff_dst": "dY", "diff_src": dz, **affine}),
        PrimitiveLaunch(
            describe_rows_backward(groups.rows, parameters=False, flags=0),
            {**given, "diff_dst": dz, "diff_src": "dX"},
        ),
    )


@onednn(GROUP_NORM, empty="zero")
def group_norm(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y, mean and inv_std."""
    groups = Groups.of(op, specs["X"], op.group)
    given = ("mean", "inv_std") if "inv_std" in specs else (Part("mean"), VARIANCE)
    steps = normalize_groups(groups, op.epsilon, "gamma", "beta", *given)
    layouts = {"gamma": ROW_MAJOR, "beta": ROW_MAJOR, "X": groups.layout, "Y": groups.layout}
    return LaidOut(SequenceLaunch(steps), layouts)


@onednn(GROUP_NORM_GRADIENT, empty="zero")
def group_norm_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX, dgamma and dbeta."""
    groups = Groups.of(op, specs["X"], op.group)
    steps = normalize_groups_backward(groups, "gamma", "dgamma", "dbeta")
    vectors = dict.fromkeys(("gamma", "mean", "inv_std"), ROW_MAJOR)
    return LaidOut(SequenceLaunch(steps), vectors | dict.fromkeys(("X", "dY", "dX"), groups.layout))
