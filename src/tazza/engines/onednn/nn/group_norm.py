"""GroupNorm and its gradient, by layer and batch normalization.

Letters as in `ops.group_norm`, I = C/G * S the elements of a group of an image. In a batch of dense images (N, C, S...)
the groups are the rows of a matrix (N * G, I). So layer normalization computes the statistics and Z = (X - mean) *
inv_std; batch normalization with a mean of 0, a variance of 1 and an epsilon of 0 then does what differs by channel,
forward gamma * Z + beta, and backward dZ = gamma * dY and the sums dgamma and dbeta.

oneDNN speaks of the variance where the operators speak of inv_std = 1 / sqrt(variance + epsilon); small steps make one
of the other. Backward the variance is inv_std ** -2, with an epsilon of 0.
"""

from __future__ import annotations

import math

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.estimate import passes
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import Constant, Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import constant
from tazza.engines.onednn.nn.layer_norm import VARIANCE, affine_flags, describe_rows, describe_rows_backward, pointwise
from tazza.engines.onednn.nn.layer_norm import statistics as per_row
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import describe
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import LaidOut, OpView
from tazza.ops.nn.group_norm import GROUP_NORM, GROUP_NORM_GRADIENT
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec

STANDARD: dict[str | int, Operand] = {"mean": Constant(0.0), "variance": Constant(1.0)}
"""Statistics with which batch normalization changes nothing but scale and shift."""

FORWARD_NS, BACKWARD_NS = passes(12, "X"), passes(24, "X")
"""What the steps take as long as."""


@dataclass(frozen=True)
class Groups:
    """A batch of images as it lies, the same dense with the channels first, and the rows that its groups are then.

    `channels` is the dense batch as (N, C, S): batch normalization is for three spatial dimensions at most.
    """

    shown: Descriptor
    image: Descriptor
    channels: Descriptor
    rows: Descriptor

    @classmethod
    def of(cls, op: OpView, X: TensorSpec, group: int | None = None) -> Groups:
        """Return the groups of a blob X; each channel is one by default."""
        shown = Order.of(op, X).see(X)
        N, C, *spatial = shown.dims
        count = N * (C if group is None else group)
        dense = [(N, C, *spatial), (N, C, math.prod(spatial)), (count, X.size // count)]
        return cls(shown, *(Descriptor.of(dims, X.dtype) for dims in dense))

    @property
    def direct(self) -> bool:
        """Whether the blobs can be used as they lie; else the steps work in scratch memory, between reorders."""
        return self.shown.layout() == self.image.layout()

    def inside(self, letter: str) -> Operand:
        """Return the place of a blob whose channels come first."""
        return letter if self.direct else Part(f"{letter} in rows")

    def enter(self, *letters: str) -> tuple[PrimitiveLaunch, ...]:
        """Return the steps that bring blobs inside."""
        found = None if self.direct else reorder(self.shown, self.image)
        return (
            () if found is None else tuple(PrimitiveLaunch(found, {"src": x, "dst": self.inside(x)}) for x in letters)
        )

    def leave(self, letter: str) -> tuple[PrimitiveLaunch, ...]:
        """Return the steps that bring a blob back to how it is to lie."""
        if self.direct:
            return ()
        return (PrimitiveLaunch(reorder(self.image, self.shown), {"src": self.inside(letter), "dst": letter}),)

    @property
    def statistics(self) -> Descriptor:
        """One float32 number for each group of each image."""
        return per_row(self.rows)

    def affine(self, scale: str, shift: str) -> PrimitiveLaunch:
        """Return what computes Y = scale * Y + shift by channel, in place and inside."""
        y = self.inside("Y")
        flags = affine_flags() | constant("dnnl_use_global_stats")
        operation = "batch_normalization_forward"
        found = describe(operation, "forward_inference", self.channels, self.channels, 0.0, flags)
        return PrimitiveLaunch(found, {**STANDARD, "src": y, "dst": y, "scale": scale, "shift": shift})

    def affine_backward(self, arguments: dict[str | int, Operand]) -> PrimitiveLaunch:
        """Return the gradient of that: diff_src = scale * diff_dst, and the sums diff_scale and diff_shift."""
        flags, image = affine_flags() | constant("dnnl_use_global_stats"), self.channels
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
    images: dict[str | int, Operand] = {"src": groups.inside("X"), "dst": groups.inside("Y")}
    return (
        *groups.enter("X"),
        PrimitiveLaunch(found, {**images, "mean": mean, "variance": inv_std}),
        groups.affine(scale, shift),
        *groups.leave("Y"),
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


def normalize_groups_backward(
    groups: Groups, scale: str, dscale: str, dshift: str, *, epsilon: float | None = None
) -> tuple[PrimitiveLaunch, ...]:
    """Return the steps from X, dY, mean and inv_std to dX and the gradients of scale and shift.

    With `epsilon` there are no mean and inv_std: they are computed again. Z is kept in the memory of dX until the last
    step.
    """
    again, dz = epsilon is not None, Part("dZ")
    added = 0.0 if epsilon is None else epsilon
    dx = groups.inside("dX")
    given: dict[str | int, Operand] = {
        "src": groups.inside("X"),
        "mean": Part("mean") if again else "mean",
        "variance": VARIANCE,
    }
    affine: dict[str | int, Operand] = {"scale": scale, "diff_scale": dscale, "diff_shift": dshift}
    flags = 0 if again else constant("dnnl_use_global_stats")
    forward = describe_rows(groups.rows, training=again, epsilon=added, flags=flags)
    backward = describe_rows_backward(groups.rows, parameters=False, flags=0, epsilon=added)
    steps = (
        *groups.enter("X", "dY"),
        PrimitiveLaunch(forward, {**given, "dst": dx}),
        groups.affine_backward({"src": dx, "diff_dst": groups.inside("dY"), "diff_src": dz, **affine}),
        PrimitiveLaunch(backward, {**given, "diff_dst": dz, "diff_src": dx}),
        *groups.leave("dX"),
    )
    return steps if again else (pointwise("eltwise_pow", 1.0, -2.0, groups.statistics, "inv_std", VARIANCE), *steps)


@onednn(GROUP_NORM, empty="zero", estimate_ns=FORWARD_NS)
def group_norm(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y, mean and inv_std."""
    groups = Groups.of(op, specs["X"], op.group)
    given = ("mean", "inv_std") if "inv_std" in specs else (Part("mean"), VARIANCE)
    steps = normalize_groups(groups, op.epsilon, "gamma", "beta", *given)
    layouts = {"gamma": ROW_MAJOR, "beta": ROW_MAJOR, "Y": specs["X"].layout}
    return LaidOut(SequenceLaunch(steps), layouts)


@onednn(GROUP_NORM_GRADIENT, empty="zero", estimate_ns=BACKWARD_NS)
def group_norm_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX, dgamma and dbeta."""
    groups = Groups.of(op, specs["X"], op.group)
    steps = normalize_groups_backward(groups, "gamma", "dgamma", "dbeta")
    layouts: dict[str, Layout] = dict.fromkeys(("gamma", "mean", "inv_std"), ROW_MAJOR)
    layouts |= dict.fromkeys(("dY", "dX"), specs["X"].layout)
    return LaidOut(SequenceLaunch(steps), layouts)
