"""Broadcasting of B against A in binary operators.

Without `broadcast` both are broadcast against each other as in NumPy. With it B lies under A: its dimensions are those
of A from `axis` on, or the last ones, and the result has the shape of A. Dimensions of 1 at either end of B fit
anything. `axis_str` names the axis by its letter in `order`, such as C in NCHW.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tazza.errors import ArgumentError
from tazza.operator import Array, Dims, OpView, Spec, arg, show_dims
from tazza.ops.shape.axis import agree
from tazza.tensor import TensorSpec

AXIS_ARGS = (
    arg("axis", int, -1, doc="the dimension of A at which those of B begin; -1: both end together"),
    arg("axis_str", str, "", doc="the same by its letter in `order`"),
    arg("order", str, "NCHW", doc="one letter for each dimension of A"),
)
BROADCAST_ARGS = (arg("broadcast", int, 0, doc="not 0: B lies under A at `axis`; 0: as in NumPy"), *AXIS_ARGS)


def check_axis(op: OpView) -> None:
    """Check the arguments that name the axis, where they count.

    Raises:
        ArgumentError: two of them, or a letter that is none of `order`.
    """
    if not op.arguments.get("broadcast", 1) or not op.axis_str:
        return
    if op.axis != -1:
        raise op.error(ArgumentError, f"axis = {op.axis} and axis_str = {op.axis_str!r}", "give one of them")
    if len(op.axis_str) != 1 or op.axis_str not in op.order:
        raise op.error(ArgumentError, f"axis_str = {op.axis_str!r} is no letter of order = {op.order!r}")


def under(op: OpView, A: Sequence[int | None], B: Sequence[int | None]) -> Dims:
    """Return the dims of B with 1 for each dimension of A behind it, so that NumPy broadcasts it to A.

    As in Caffe2 a B of one element fits any A and any axis.

    Raises:
        ShapeError: B does not lie under A.
    """
    shapes = f"A has the shape {show_dims(A)}, B has {show_dims(B)}"
    if all(extent == 1 for extent in B):
        return (1,) * len(A)  # one number lies anywhere, whatever its rank
    room = len(A) - len(B)
    op.require(room >= 0, f"{shapes}: B has more dimensions", "swap them, or leave out broadcast")
    axis = op.order.index(op.axis_str) if op.axis_str else room if op.axis == -1 else op.axis
    op.require(0 <= axis <= room, f"{shapes}: B cannot begin at axis = {axis} of A", f"axis is 0 to {room}, or -1")
    wide = [i for i, extent in enumerate(B) if extent != 1]
    for i in range(wide[0], wide[-1] + 1) if wide else ():
        fits = agree(A[axis + i], B[i])
        op.require(fits, f"{shapes}: dimension {i} of B is {B[i]}, dimension {axis + i} of A is {A[axis + i]}")
    return (*B, *(1,) * (room - axis))


def joint_dims(op: OpView, A: TensorSpec, B: TensorSpec) -> Dims | None:
    """Return the dims of the result, None where a rank is unknown.

    Raises:
        ShapeError: the two do not broadcast.
    """
    if A.dims is None or B.dims is None:
        return None
    if op.broadcast:
        under(op, A.dims, B.dims)
        return tuple(A.dims)
    rank = max(len(A.dims), len(B.dims))
    pairs = zip(*((1,) * (rank - len(dims)) + tuple(dims) for dims in (A.dims, B.dims)), strict=True)
    joint: list[int | None] = []
    for a, b in pairs:
        relation = f"A has the shape {show_dims(A.dims)}, B has {show_dims(B.dims)}: {a} and {b} do not broadcast"
        op.require(agree(a, b) or 1 in (a, b), relation, "for a B that lies under A elsewhere: broadcast=1 and axis")
        joint.append(b if a == 1 else a if a is not None else None if b == 1 else b)
    return tuple(joint)


def lying(op: OpView, A: Array, B: Array) -> Array:
    """Return B in the shape in which NumPy broadcasts it against A."""
    return B.reshape(_whole(under(op, A.shape, B.shape))) if op.broadcast else B


def align_b(op: OpView, specs: Mapping[str, Spec]) -> dict[str, tuple[int, ...]]:
    """Say for formulas how B lies; see `tazza.operator.formula`."""
    A, B = specs.get("A"), specs.get("B")
    if not op.broadcast or not isinstance(A, TensorSpec) or not isinstance(B, TensorSpec) or A.dims is None:
        return {}
    return {"B": _whole(under(op, A.dims, B.shape))}


def summed(x: Array, dims: Sequence[int], like: Array) -> Array:
    """Return the sum of x over what was broadcast from `dims` to its shape, in the shape of `like`.

    >>> import numpy as np
    >>> summed(np.ones((2, 3)), (1, 3), np.zeros(3))
    array([2., 2., 2.])
    """
    front = x.ndim - len(dims)
    spread = [front + i for i, extent in enumerate(dims) if extent != x.shape[front + i]]
    return x.sum(axis=(*range(front), *spread), dtype=x.dtype).reshape(like.shape)


def _whole(dims: Dims) -> tuple[int, ...]:
    return tuple(extent for extent in dims if extent is not None)
