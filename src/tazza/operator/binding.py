"""What an operator is bound to between runs: a call, and what has to stay as it is for the call to stay right."""

from __future__ import annotations

from dataclasses import dataclass, field

from tazza.errors import ShapeError
from tazza.operator.kernel import Call, value_key
from tazza.operator.schema import logical
from tazza.runtime.flags import kernel_changes
from tazza.tensor import Allocation, Blob, Storage, Tensor, TensorSpec

Watched = tuple[Blob, Tensor, TensorSpec | None, Storage, int]
"""A blob as it was when bound: tensor, spec, storage, generation; without spec only the tensor itself matters."""


@dataclass(slots=True)
class Binding:
    """A call on the present addresses, under the present flags.

    `values` are inputs that shapes were inferred from, `scratch` is kept alive.
    """

    call: Call
    watched: list[Watched]
    values: list[tuple[Tensor, int, bytes]]
    scratch: Allocation | None
    flags: int = field(default_factory=kernel_changes)

    def stale(self) -> bool:
        """Whether something has changed that the call rests on."""
        if self.flags != kernel_changes():
            return True
        for blob, tensor, spec, storage, generation in self.watched:
            if blob.value is not tensor:
                return True
            if spec is not None and (
                tensor.spec is not spec or tensor.storage is not storage or storage.generation != generation
            ):
                return True
        for tensor, version, key in self.values:
            if tensor.storage.version != version or (tensor.storage.escaped and value_key(tensor.plain()) != key):
                return True
        return False


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
