"""How a net learns: an optimizer, the policy of its rate, and defaults with which each of them is of use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.fitting.option import check_types, is_number
from tazza.models.model import Model
from tazza.models.optimizer import OPTIMIZERS, OPTIONS
from tazza.operator.argument import ArgSpec
from tazza.ops.optimizer.learning_rate import LEARNING_RATE, POLICIES
from tazza.runtime.files import one_line

SHARED = {"momentum": 0.9, "weight_decay": 5e-4}
"""Options of optimizers, and what they are where nobody says; those that an optimizer does not have are left out."""
RATES = {"adam": 0.001}
"""What a rate starts from where nobody says, by optimizer."""
RATE = 0.01
"""Of the other optimizers."""
_PART = re.compile(r"sub_policy_\d+_(\w+)")

Defaults = Callable[[int, float], Mapping[str, Any]]
"""What the arguments of a policy are, for so many steps and such a rate."""

POLICY_DEFAULTS: dict[str, Defaults] = {
    "alter": lambda steps, rate: {"active_period": 1},
    "step": lambda steps, rate: {"gamma": 0.999, "stepsize": 1},
    "exp": lambda steps, rate: {"gamma": 0.999},
    "inv": lambda steps, rate: {"gamma": 1e-4, "power": 0.75},
    "poly": lambda steps, rate: {"power": 1.0, "max_iter": steps},
    "hill": lambda steps, rate: {"num_iter": _share(steps), "start_multiplier": 0.1, "gamma": 1e-4, "power": 0.75},
    "slope": lambda steps, rate: {"multiplier_1": 1.0, "num_iter_1": _share(steps), "num_iter_2": steps},
    "linearWarmup": lambda steps, rate: {"num_iter": _share(steps), "start_multiplier": 0.1},
    "constantWarmup": lambda steps, rate: {"num_iter": _share(steps)},
    "pieceWarmup": lambda steps, rate: {"n1": _share(steps) // 2, "n2": _share(steps), "m1": 0.1, "m3": 1.0},
    "constantThenLinearWarmup": lambda steps, rate: _warmup(steps),
    "cyclical": lambda steps, rate: {"stepsize": _share(steps), "max_lr": 4 * rate},
    "compositeCyclical": lambda steps, rate: {
        **_warmup(steps),
        "cyclical_max_lr": 4 * rate,
        "cyclical_step_size": _share(steps),
    },
    "cosine": lambda steps, rate: {"max_lr": 1.0, "min_lr": 0.0, "period": steps + 1},
    "compositeCosine": lambda steps, rate: {
        **_warmup(steps),
        "cosine_max_lr": 1.0,
        "cosine_min_lr": 0.0,
        "cosine_period": steps + 1,
    },
    "composite": lambda steps, rate: {
        "sub_policy_num_iters": [_share(steps), steps],
        "sub_policy_0_policy": "linearWarmup",
        "sub_policy_0_num_iter": _share(steps),
        "sub_policy_0_start_multiplier": 0.1,
        "sub_policy_1_policy": "poly",
        "sub_policy_1_power": 1.0,
        "sub_policy_1_max_iter": steps,
    },
}
"""Of the policies that are of no use without; LearningRate itself takes 0 for most of them, as Caffe2 does."""


def _share(steps: int) -> int:
    """Return a tenth of the steps, for what begins or returns."""
    return max(1, steps // 10)


def _warmup(steps: int) -> dict[str, Any]:
    return {"constant_warmup_num_iter": _share(steps) // 2, "linear_warmup_num_iter": _share(steps)}


@dataclass(frozen=True, slots=True)
class Solver:
    """An optimizer with its options, and a policy of the rate with its arguments; None: what is usual.

    Args:
        name: of the optimizer, see `OPTIMIZERS`.
        learning_rate: what the policy starts from, above 0.
        policy: see the operator LearningRate.
        options: of the optimizer and arguments of the policy, by name.

    Raises:
        ArgumentError: a value is of another kind, or out of its range.
    """

    name: str = "sgd"
    learning_rate: float | None = None
    policy: str = "poly"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        check_types(self)
        for name, value in self.options.items():
            if not _is_value(name, value):
                raise ArgumentError(f"{name} = {one_line(repr(value))}", hint="a finite number, or true or false")
        if not self.rate() > 0:
            raise ArgumentError(f"a learning rate of {self.learning_rate} is not above 0")
        momentum = self.options.get("momentum")
        if momentum is not None and not (is_number(momentum) and 0 <= momentum < 1):
            raise ArgumentError(f"momentum {momentum} is not in 0 ... 1, without 1")

    def rate(self) -> float:
        """Return what the policy starts from."""
        return RATES.get(self.name, RATE) if self.learning_rate is None else self.learning_rate

    def add_to(self, model: Model, steps: int) -> None:
        """Append the updates to a model that has its gradients, for a training of so many steps.

        Raises:
            TazzaError: there is no such optimizer or policy, or it does not have an option.
        """
        optimizer, own = OPTIMIZERS[self.name], OPTIONS[self.name]
        POLICIES[self.policy]
        given = {name: value for name, value in self.options.items() if value is not None}
        shared = {name: value for name, value in SHARED.items() if name in own}
        of_policy = {name: _typed(name, value) for name, value in given.items() if name not in own}
        refused = sorted(name for name in of_policy if not _is_argument(name))
        if refused:
            raise ArgumentError(
                f"neither the optimizer {self.name!r} nor a policy has {refused[0]!r}",
                hint=f"the optimizer has {', '.join(sorted(own))}",
            )
        defaults = POLICY_DEFAULTS.get(self.policy)
        usual = {} if defaults is None else dict(defaults(steps, self.rate()))
        chosen = shared | {name: value for name, value in given.items() if name in own}
        optimizer(model, self.rate(), policy=self.policy, **chosen, **(usual | of_policy))


def _is_value(name: str, value: object) -> bool:
    """Whether a value may be that of an option: a number, numbers in a row, or the text that an argument is."""
    found = _option(name)
    if isinstance(value, str):
        return found is not None and found.type is str
    if isinstance(value, list | tuple):
        return all(is_number(each) for each in cast("Sequence[object]", value))
    return value is None or isinstance(value, bool) or is_number(value)


def _option(name: str) -> ArgSpec | None:
    part = _PART.fullmatch(name)
    return LEARNING_RATE.args.get(name if part is None else part[1])


def _is_argument(name: str) -> bool:
    part = _PART.fullmatch(name)
    return name in LEARNING_RATE.args or (part is not None and (part[1] in LEARNING_RATE.args or part[1] == "lr_scale"))


def _typed(name: str, value: Any) -> Any:
    """Return a number in the type of the argument that it is for: whether it has a point matters to operators."""
    found = _option(name)
    return float(value) if found is not None and found.type is float else value
