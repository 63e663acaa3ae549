"""What one run of an operator costs, in operations and bytes."""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.tensor import TensorSpec, TypeSpec


@dataclass(frozen=True, slots=True)
class Cost:
    """Floating-point operations and bytes moved by one run; the parameters are counted in `bytes_read` too.

    >>> (Cost(flops=2, bytes_read=8) + Cost(flops=1, bytes_written=4)).flops
    3
    """

    flops: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    parameter_bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both."""
        return Cost(
            self.flops + other.flops,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
            self.parameter_bytes + other.parameter_bytes,
        )


def streamed(
    inputs: tuple[TensorSpec | TypeSpec | None, ...], outputs: tuple[TensorSpec | TypeSpec, ...], flops: int = 0
) -> Cost:
    """Return the cost of reading every input and writing every output once, with `flops` operations."""
    return Cost(
        flops,
        sum(spec.nbytes for spec in inputs if isinstance(spec, TensorSpec)),
        sum(spec.nbytes for spec in outputs if isinstance(spec, TensorSpec)),
    )
