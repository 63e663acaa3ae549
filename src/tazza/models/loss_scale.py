"""Loss scaling: gradients are computed times a number, so that small ones survive where products are of a narrow type.

    model = Model("net"); ...; scale = add_scaled_gradients(model, loss); sgd(model, 0.1)

Weights, their gradients and what an optimizer keeps stay in float32. The gradient of the loss begins as the scale, and
those of the parameters are divided by it before an optimizer sees them. Where one element of them is NaN or infinite,
all of them are zeros in that step, and the scale is multiplied by `backoff`; after `interval` steps without that it is
multiplied by `growth`. All of it is operators on scalars that lie where the net runs: nobody waits for the answer. So,
unlike where a host skips the step, momentum goes on in a step of zeros, and the iteration counts.

Source: P. Micikevicius et al., "Mixed Precision Training", ICLR 2018, section 3.2.
"""

from __future__ import annotations

from typing import Any

from tazza.data_class import dataclass
from tazza.device import device_scope, scoped_device
from tazza.errors import ArgumentError
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.models.optimizer import gradients_of
from tazza.operator import RowSlices
from tazza.proto import DeviceOption

LEAST, MOST = 1.0, 2.0**24
"""Between what a scale stays: products of float16 end at 65504, and nothing is gained below 1."""


@dataclass(frozen=True, slots=True)
class LossScale:
    """How a scale changes.

    Attributes:
        initial: what it begins with; a power of 2 rounds nothing.
        growth: times what it is after `interval` steps without an overflow; at least 1.
        backoff: times what it is after an overflow; above 0, at most 1.
        interval: steps.

    Raises:
        ArgumentError: a number out of range.

    >>> LossScale(initial=1024.0).growth
    2.0
    """

    initial: float = 2.0**16
    growth: float = 2.0
    backoff: float = 0.5
    interval: int = 2000

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not LEAST <= self.initial <= MOST:
            raise ArgumentError(f"the initial loss scale is {self.initial}, not between {LEAST} and {MOST}")
        if not (self.growth >= 1 and 0 < self.backoff <= 1 and self.interval >= 1):
            raise ArgumentError(
                f"a loss scale with growth {self.growth}, backoff {self.backoff}, interval {self.interval}",
                hint="growth is at least 1, backoff above 0 and at most 1, interval at least 1",
            )


DYNAMIC = LossScale()
"""What is taken where nobody chooses."""


def add_scaled_gradients(model: Model, loss: str, scaling: LossScale = DYNAMIC) -> BlobReference:
    """Append the gradients of a loss, which are computed times a scale; return the blob of the scale, of rank 0.

    Call it where `Model.add_gradients` would be called, with an optimizer behind it.

    Args:
        model: has no gradients yet.
        loss: a blob of rank 0.
        scaling: how the scale changes.

    Raises:
        GradientError: no parameter has a gradient; see `backward_pass` too.
        NetError: the net does not define the loss.
    """
    option = scoped_device()
    with device_scope(DeviceOption() if option is None else option):
        made = _Scale(model, f"{loss}_scale", scaling)
        model.gradients = model.net.add_gradients({loss: made.scale})
        values = [one.values if isinstance(one, RowSlices) else one for one in gradients_of(model).values()]
        made.unscale(values)
        made.update()
    return made.scale


class _Scale:
    """Writes the operators."""

    def __init__(self, model: Model, name: str, scaling: LossScale) -> None:
        self.model, self.net, self.name, self.scaling = model, model.net, name, scaling
        self.scale = self._number("", scaling.initial)
        self.steps = self._number("_steps", 0.0)
        self.zero = self._number("_zero", 0.0)
        self.finite = BlobReference(f"{name}_finite", model.net)

    def _number(self, part: str, value: float) -> BlobReference:
        """Return a scalar that the init net makes."""
        return self.model.init_net.add("ConstantFill", (), f"{self.name}{part}", shape=list[int](), value=float(value))

    def _op(self, type: str, inputs: list[BlobReference], part: str, **arguments: Any) -> BlobReference:
        return self.net.add(type, inputs, f"{self.name}_{part}", **arguments)

    def unscale(self, gradients: list[BlobReference]) -> None:
        """Divide gradients by the scale, or make all of them zeros where one is not finite."""
        squares = [self._op("SumSqrElements", [one], f"squares_{k}") for k, one in enumerate(gradients)]
        total = self._op("Sum", squares, "squares")
        nothing = self._op("Sub", [total, total], "nothing")  # NaN where the total is NaN or infinite
        self.finite = self._op("EQ", [nothing, nothing], "finite")
        inverse = self._op("Reciprocal", [self.scale], "inverse")
        factor = self._op("Where", [self.finite, inverse, self.zero], "factor")
        for gradient in gradients:
            self.net.add("Mul", [gradient, factor], gradient, broadcast=1)
            self.net.add("ReplaceNaN", gradient, gradient, value=0.0)  # infinity times 0

    def update(self) -> None:
        """Let the scale, and the steps since it changed, be those of the next step."""
        scaling, one = self.scaling, self._number("_one", 1.0)
        interval = self._number("_interval", scaling.interval)
        longer = self._op("Add", [self.steps, one], "longer")
        enough = self._op("GE", [longer, interval], "enough")
        grown = self._op("Scale", [self.scale], "grown", scale=scaling.growth)
        shrunk = self._op("Scale", [self.scale], "shrunk", scale=scaling.backoff)
        most = self._op("Clip", [grown], "most", min=LEAST, max=MOST)
        least = self._op("Clip", [shrunk], "least", min=LEAST, max=MOST)
        kept = self._op("Where", [enough, most, self.scale], "kept")
        counted = self._op("Where", [enough, self.zero, longer], "counted")
        self.net.add("Where", [self.finite, kept, least], self.scale)
        self.net.add("Where", [self.finite, counted, self.zero], self.steps)
