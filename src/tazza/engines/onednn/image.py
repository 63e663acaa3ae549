"""Images as oneDNN sees them: extents (N, C, S...) whatever the operator's order says.

Letters: N images, C channels, `S...` spatial sizes. A blob of order NHWC has the extents (N, S..., C).
"""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor
from tazza.operator import OpView
from tazza.tensor import ROW_MAJOR, DataType, Dim, Layout, TensorSpec, channels_last


@dataclass(frozen=True, slots=True)
class Order:
    """Where the channels of a blob of `rank` axes stand, and the way to (N, C, S...) and back."""

    rank: int
    last: bool

    @classmethod
    def of(cls, op: OpView, spec: TensorSpec) -> Order:
        """Return the order that an operator's argument names for a blob."""
        return cls(len(spec.shape), op.order.upper() == "NHWC")

    @property
    def to_first(self) -> tuple[int, ...]:
        """The axes of the blob in the order (N, C, S...)."""
        return (0, self.rank - 1, *range(1, self.rank - 1)) if self.last else tuple(range(self.rank))

    @property
    def _to_blob(self) -> tuple[int, ...]:
        return (0, *range(2, self.rank), 1) if self.last else tuple(range(self.rank))

    def see(self, spec: TensorSpec, layout: Layout | None = None) -> Descriptor:
        """Return the descriptor (N, C, S...) of a blob as it lies, or as it would lie in another layout."""
        found = Descriptor.of(spec) if layout is None else Descriptor.of(spec.shape, spec.dtype, layout)
        return found.permute(self.to_first)

    def any(self, spec: TensorSpec, dtype: DataType | None = None) -> Descriptor:
        """Return the descriptor (N, C, S...) of a blob in the layout that the primitive likes.

        Its elements lie in their own type, or in `dtype`.
        """
        return Descriptor.any([spec.shape[axis] for axis in self.to_first], spec.dtype if dtype is None else dtype)

    def layout(self, found: Descriptor, dtype: DataType | None = None) -> Layout:
        """Return the layout of the blob that a descriptor (N, C, S...) says; its elements are of `dtype`, if given."""
        return found.permute(self._to_blob).layout(dtype=dtype)

    def dense_channels(self, shape: Dim) -> Layout:
        """Return the layout of a blob of this shape whose channels are dense."""
        return ROW_MAJOR if self.last or self.rank < 3 else channels_last(shape)
