"""What an operator is bound to between runs: a call, and what has to stay as it is for the call to stay right."""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.errors import ShapeError
from tazza.operator.kernel import Call
from tazza.operator.schema import logical
from tazza.operator.watch import Watch
from tazza.tensor import Allocation, Tensor, TensorSpec


@dataclass(frozen=True, slots=True)
class Binding:
    """A call on the addresses and under the flags that `watch` looks at; `scratch` is kept alive."""

    call: Call
    watch: Watch
    scratch: Allocation | None


def check_overwritten(letter: str, name: str, before: TensorSpec, after: TensorSpec) -> None:
    """Check that an output may be written over the blob `name`: same dtype, as many elements.

    Raises:
        ShapeError: it may not.
    """
    if before.size != after.size or before.dtype is not after.dtype:
        raise ShapeError(
            f"{letter} = {name!r} is written in place over {logical(before)}, so it must keep dtype and number of "
            f"elements; it would become {logical(after)}",
            hint="give the output a name of its own",
        )


def same_memory(tensor: Tensor) -> Tensor:
    """Return another tensor over the same memory, for when the first gets another shape."""
    return Tensor.over(tensor.storage, tensor.offset_bytes, tensor.spec)
