"""The backward pass of random nets, against central differences of the whole net in float64.

The nets use names again, overwrite in place, read blobs twice and many times, and take gradients from several targets.
Where a gradient cannot be had any more the pass says so; what it returns is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tazza.errors import GradientError, TazzaError
from tazza.graph import backward_pass
from tazza.operator import find_schema, operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.testing.gradient import STEP
from tazza.workspace import Workspace
from tests.check import evaluate
from tests.judge.hand import Array

LEAVES = ("p", "q", "r")
FIRST = [operator_def("Copy", [leaf], [name]) for leaf, name in zip(LEAVES, "abc", strict=True)]
INPUTS = {
    **dict.fromkeys(("Sqr", "Sqrt", "Sigmoid", "Softsign", "Tanh", "Relu", "Scale", "Exp", "Copy", "Softmax"), (1,)),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), (2,)),
    "Pow": (1, 2),
    "Sum": (1, 2, 3),
}
NETS = 40
"""In one block of seeds."""
SHARE = 0.6
"""How many of the nets must have a gradient at least; the others overwrite what it needs."""
LARGEST = 30.0
"""Of numbers in a net; what makes larger ones, or none, is left out of it."""


def random_net(rng: np.random.Generator, leaves: Mapping[str, Array]) -> list[OperatorDef]:
    """Return a net of at most 10 operators on blobs of one shape; names are used again, often in place."""
    names, ops = [*LEAVES, *"abc"], list(FIRST)
    blobs = {**leaves, **{op.output[0]: leaves[op.input[0]] for op in FIRST}}
    for position in range(int(rng.integers(3, 11))):
        type = str(rng.choice([*INPUTS, "Sum", "Sum", "Sqrt", "Pow", "Scale"]))
        count = int(rng.choice(INPUTS[type]))
        inputs = [str(rng.choice(names)) for _ in range(count)]
        given: dict[str, Any] = {"scale": 0.5} if type == "Scale" else {"exponent": 1.5} if type == "Pow" else {}
        output = f"y{position}" if rng.random() < 0.5 else str(rng.choice(names[len(LEAVES) :]))
        definition = operator_def(type, inputs, [output], **({} if count == 2 else given))
        if not is_legal(definition):
            continue
        with np.errstate(all="ignore"):
            (result,) = evaluate(find_schema(type).view(definition), [blobs[name] for name in inputs])
        if bool((np.abs(result) < LARGEST).all()):
            ops.append(definition)
            blobs[output] = result
            names = list(dict.fromkeys([*names, output]))
    return ops


def is_legal(definition: OperatorDef) -> bool:
    """Whether an operator may overwrite what it overwrites."""
    try:
        find_schema(definition.type).view(definition)
    except TazzaError:
        return False
    return True


def forward(ops: Sequence[OperatorDef], leaves: Mapping[str, Array], targets: Mapping[str, Array]) -> float:
    """Return the sum of targets, weighted, in float64."""
    blobs = dict(leaves)
    for op in ops:
        results = evaluate(find_schema(op.type).view(op), [blobs[name] for name in op.input])
        blobs.update(zip(op.output, results, strict=True))
    return sum(float(np.sum(weight * blobs[name])) for name, weight in targets.items())


def text(ops: Sequence[OperatorDef]) -> str:
    """Return one line for each operator."""
    return "\n".join(f"{op.type}: {' '.join(op.input)} -> {' '.join(op.output)}" for op in ops)


@pytest.mark.slow
@pytest.mark.parametrize("block", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))])
def test_gradients_of_random_nets(block: int, caplog: pytest.LogCaptureFixture) -> None:
    checked = 0
    for seed in range(block * NETS, (block + 1) * NETS):
        caplog.clear()
        checked += check_net(seed, caplog)
    assert checked >= SHARE * NETS


def check_net(seed: int, caplog: pytest.LogCaptureFixture) -> bool:
    """Check the gradients of the leaves of one net; False where it has none, or no finite numbers of fair size."""
    rng = np.random.default_rng(seed)
    leaves = {name: rng.uniform(0.4, 1.4, (2, 3)) for name in LEAVES}
    ops = random_net(rng, leaves)
    written = [op.output[0] for op in ops]
    targets = {name: rng.uniform(0.5, 1.5, (2, 3)) for name in (written[-1], str(rng.choice(written)))}
    try:
        emitted, gradients = backward_pass(ops, {name: f"{name}_given" for name in targets})
    except GradientError:
        return False
    workspace = Workspace()
    for name, value in {**leaves, **{f"{name}_given": value for name, value in targets.items()}}.items():
        workspace.feed(name, value.astype(np.float32))
    with np.errstate(all="ignore"):
        middle = forward(ops, leaves, targets)
        if not abs(middle) < 1e3:
            return False
        workspace.run_net_once(NetDef(op=[*ops, *emitted]))
        for name in LEAVES:
            direction = rng.standard_normal((2, 3))
            ahead, behind = (
                forward(ops, {**leaves, name: leaves[name] + sign * STEP * direction}, targets) for sign in (1, -1)
            )
            numeric = (ahead - behind) / (2 * STEP)
            if not abs(numeric) < 1e4:
                return False
            gradient = gradients.get(name)
            if f"blob {name!r} gets no gradient" in caplog.text:
                assert gradient is None
                continue
            found = np.zeros((2, 3)) if gradient is None else workspace.fetch(str(gradient))
            analytic, allowed = float(np.sum(found * direction)), 1e-3 * float(np.linalg.norm(found)) + 1e-5
            message = f"seed {seed}, {name}: {analytic} for {numeric}\n{text(ops)}\n{targets}\n{text(emitted)}"
            assert abs(analytic - numeric) <= allowed, message
    return True
