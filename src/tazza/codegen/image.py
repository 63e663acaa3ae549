"""What kernels of our own share about convolutions: what they take, where pixels and filters lie, packed filters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from tazza.codegen.block import all_float32
from tazza.operator import OpView, Spec, Unsupported
from tazza.tensor import ROW_MAJOR, Layout, Opaque, Strided, TensorSpec, channels_last

F = TypeVar("F")
P = TypeVar("P")


def float32_conv(
    op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    """Return the specs of X, W and Y of a convolution that is not empty, unless kernels of our own do not take it.

    Where Y overwrites an operand its channels are dense already.
    """
    if not all_float32(*inputs, *outputs):
        raise Unsupported("it computes in float32")
    X, W, Y = (cast("TensorSpec", spec) for spec in (*inputs[:2], outputs[0]))
    if Y.size == 0 or X.size == 0:
        raise Unsupported("there is nothing to compute")
    last = op.order.upper() == "NHWC"
    if op.definition.output[0] in op.definition.input and Y.layout != image_layout(Y, last):
        raise Unsupported(f"Y overwrites an operand ({Y}) whose channels are not dense")
    return X, W, Y


def float32_gradient(op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> dict[str, TensorSpec]:
    """Return the specs of a convolution's gradient by letter, unless kernels of our own do not take it."""
    if not all_float32(*inputs, *outputs):
        raise Unsupported("it computes in float32")
    letters = (*op.input_letters, *op.output_letters)
    specs = {letter: cast("TensorSpec", spec) for letter, spec in zip(letters, (*inputs, *outputs), strict=True)}
    if any(spec.size == 0 for spec in specs.values()):
        raise Unsupported("there is nothing to compute")
    return specs


def image_problem(
    find: Callable[[OpView, TensorSpec, TensorSpec], P],
    op: OpView,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
) -> tuple[P, TensorSpec, TensorSpec]:
    """Return what `find` makes of a convolution's X and W, with X and Y."""
    X, W, Y = float32_conv(op, inputs, outputs)
    return find(op, X, W), X, Y


def conv_layouts(op: OpView, X: Layout, W: Layout, Y: Layout, operands: int) -> dict[str, Layout]:
    """Return the layouts by letter; those of S are that of Y."""
    given = {"b": ROW_MAJOR} if "b" in op.input_letters else {}
    return {"X": X, "W": W, "Y": Y} | given | ({"S": Y} if operands else {})


def filters_to_pack(kind: type[F], W: Spec, U: Spec) -> tuple[TensorSpec, Strided, F]:
    """Return the filters that a Copy brings into a form of our own, how they lie, and the form."""
    form = U.layout.descriptor if isinstance(U, TensorSpec) and isinstance(U.layout, Opaque) else None
    if not isinstance(form, kind):
        raise Unsupported("it copies nothing but filters into the form that it reads")
    if not isinstance(W, TensorSpec) or not isinstance(W.layout, Strided) or not all_float32(W):
        raise Unsupported(f"it packs strided filters of float32, not {W}")
    return W, W.layout, form


def image_words(letter: str, spec: TensorSpec, last: bool) -> dict[str, int]:
    """Return the steps of a channels-last image in elements, as words of a block: x_image, x_row and x_pixel for x."""
    _, *extents = spec.shape
    H, W, C = extents if last else (*extents[1:], extents[0])
    return {f"{letter}_image": H * W * C, f"{letter}_row": W * C, f"{letter}_pixel": C}


def image_layout(spec: TensorSpec, last: bool) -> Layout:
    """Return the layout of an image whose channels are dense."""
    return ROW_MAJOR if last else channels_last(spec.shape)


def filter_steps(W: TensorSpec, layout: Strided, *, last: bool) -> tuple[int, int, int, int]:
    """Return the steps of k, c, y and x in filters of shape (K, C, r, r), or (K, r, r, C) with channels last."""
    k, *rest = layout.steps(W.shape)
    y, x, c = rest if last else (*rest[1:], rest[0])
    return k, c, y, x


def filter_words(W: TensorSpec, layout: Strided, *, last: bool) -> dict[str, int]:
    """Return these steps as words of a block."""
    k, c, y, x = filter_steps(W, layout, last=last)
    return {"w_k": k, "w_c": c, "w_y": y, "w_x": x}


def accepts_images(letter: str, spec: Spec) -> bool:
    """Take what is strided; the launch names the layouts that it reads."""
    del letter
    return not isinstance(spec, TensorSpec) or isinstance(spec.layout, Strided)


def lies_as(spec: TensorSpec, layout: Layout) -> bool:
    """Whether a tensor lies like that; where an extent is 1 the step is never taken."""
    if not (isinstance(spec.layout, Strided) and isinstance(layout, Strided)):
        return spec.layout == layout
    pairs = zip(spec.layout.steps(spec.shape), layout.steps(spec.shape), spec.shape, strict=True)
    return all(mine == wanted or extent == 1 for mine, wanted, extent in pairs)
