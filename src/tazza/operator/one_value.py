"""The value of a blob that holds one: what chooses a branch, ends a loop, says how often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tazza.errors import ShapeError

if TYPE_CHECKING:
    from tazza.operator.view import OpView
    from tazza.tensor import Blob


def one_value(op: OpView, letter: str, blob: Blob) -> Any:
    """Return the one element of an input, as a Python value, of the element type that the schema says.

    Inputs of host kernels are checked before a run; this is for what may change while it lasts (a condition that a
    net within writes), and for the number of elements, of which patterns say nothing where any rank will do.

    Raises:
        BlobTypeError: the blob holds no tensor.
        ShapeError: it has not one element.
        DTypeError: its element type is not what the schema says.
    """
    tensor = blob.tensor()
    op.schema.check_input(op, letter, tensor.spec)
    if tensor.size != 1:
        raise op.error(ShapeError, f"the {letter} {op.input_name(letter)!r} has {tensor.size} elements, it must have 1")
    return tensor.plain().reshape(()).item()
