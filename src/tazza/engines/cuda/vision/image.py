"""What kernels of images share: where an element lies, whatever the order, and sums over rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tazza.codegen.block import Word
from tazza.codegen.loop import fold_loop
from tazza.codegen.term import Number, Term
from tazza.data_class import dataclass
from tazza.engines.cuda.threads import Threads
from tazza.tensor import TensorSpec

Span = tuple[Number, Number]
"""From where to before where."""


@dataclass(frozen=True, slots=True)
class Images:
    """Images A x H x W x B: with the order NCHW A is N * C and B is 1, with NHWC they are N and C."""

    before: int
    image: tuple[int, int]
    behind: int

    @classmethod
    def of(cls, shape: Sequence[int], order: str) -> Images:
        """Return those of a blob of four dimensions.

        >>> Images.of((2, 3, 5, 7), "NHWC")
        Images(before=2, image=(3, 5), behind=7)
        """
        a, b, c, d = shape
        return cls(a, (b, c), d) if order.upper() == "NHWC" else cls(a * b, (c, d), 1)

    def words(self, name: str) -> dict[str, Word]:
        """Return the extents, by names that begin so."""
        H, W = self.image
        return {f"{name}H": max(1, H), f"{name}W": max(1, W), "behind": max(1, self.behind)}


def image_pair(specs: Mapping[str, TensorSpec], given: str, made: str, order: str) -> tuple[Images, Images]:
    """Return the image, and what an operator makes of it; a gradient is given the slope of that."""
    pair = (made, given) if given == "dY" else (given, made)
    image, larger = (Images.of(specs[letter].shape, order) for letter in pair)
    return image, larger


def split_image(t: Threads, name: str, i: Term) -> tuple[Term, Term, Term, Term]:
    """Return the numbers a, h, w, b of element i."""
    rest, b = t.split(i, t.w.behind)
    rest, w = t.split(rest, t.w[f"{name}W"])
    return *t.split(rest, t.w[f"{name}H"]), w, b


def place_of(t: Threads, name: str, at: tuple[Term, Term, Term, Term]) -> Term:
    """Return which element has these numbers."""
    a, h, w, b = at
    return ((a * t.w[f"{name}H"] + h) * t.w[f"{name}W"] + w) * t.w.behind + b


def summed(t: Threads, rows: Span, columns: Span, value: Callable[[Term, Term], Term]) -> Term:
    """Return the sum of `value(i, j)` in float32 over rows i and columns j."""
    zero = t.single.constant(0.0)
    return fold_loop(*rows, zero, lambda i, total: t.total(*columns, lambda j: value(i, j), total))
