"""Cases of operators with nets inside: equal by every net type, to another formula, and their gradients.

A `Nested` is data, as a `Case` of arrays is; `check_op` runs both. The other side of the gradient is computed in
float64, net by net and operator by operator, by `tests.nets.nested` or what the case names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tazza.graph import backward_pass
from tazza.operator import touched_by
from tazza.operator.nested import all_operators
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Place
from tazza.workspace import Workspace
from tests.check import Array, assert_close, in_some_direction
from tests.nets.nested import Values, evaluate

KINDS = ("simple", "dag", "async_scheduling", "simple_refcount", "plan")
"""Net types that differ in how they run; others are these under another name, or with a profile."""
RELATIVE = 1e-5
"""What the gradient in one direction may be off, of its norm, as in float32."""


@dataclass(frozen=True)
class Nested:
    """Operators in order, what is fed, and what they must leave by another formula than that of their kernels.

    `targets` are blobs whose gradients are given; those of all floats fed are compared then. `evaluate` runs a net on
    arrays in float64.
    """

    id: str
    ops: tuple[OperatorDef, ...]
    fed: Mapping[str, Array]
    leaves: Mapping[str, Any]
    targets: tuple[str, ...] = ()
    slack: float = 1.0
    kinds: tuple[str, ...] = KINDS
    evaluate: Callable[[NetDef, Values], None] = evaluate

    def types(self) -> set[str]:
        """Return the types that the case is of, those within included."""
        return {op.type for op, _ in all_operators(NetDef(op=[*self.ops, *self._gradient()[0]]))}

    def check(self, place: Place | None = None) -> None:
        """Run the nets by each type and assert all that must hold."""
        assert place is None, "nets within operators are run by the host"
        self._check_touches()
        emitted, given, gradients = self._gradient()
        fed = {**self.fed, **given}
        net = NetDef(name="case", op=[*self.ops, *emitted])
        assert NetDef.FromString(net.SerializeToString()) == net
        wanted = [*self.leaves, *gradients.values()]
        simple = self._run(net, fed, "simple", wanted)
        for name, value in self.leaves.items():
            assert_close(simple[name], value, self.slack)
        for kind in self.kinds:
            found = self._run(net, fed, kind, wanted)
            for name in wanted:
                if kind == "plan":
                    assert_close(found[name], simple[name], self.slack)
                else:
                    np.testing.assert_array_equal(found[name], simple[name], err_msg=f"{name}, {kind}")
        self._check_gradients({name: simple[grad] for name, grad in gradients.items()}, given)

    def _run(self, net: NetDef, fed: Mapping[str, Array], kind: str, wanted: list[str]) -> Values:
        """Run twice by a net type, with the same fed anew; returns what is left, which must be the same."""
        made = NetDef.FromString(net.SerializeToString())
        made.type, made.num_workers = kind, 2
        made.external_output.extend(wanted)
        home, runs = Workspace(), list[Values]()
        for _ in range(2):
            for name, value in fed.items():
                home.feed(name, value)
            if not runs:
                home.create_net(made)
            home.run_net(made.name)
            runs.append({name: home.fetch(name) for name in wanted})
        for name in wanted:
            np.testing.assert_array_equal(runs[0][name], runs[1][name], err_msg=f"{name}, the second run by {kind}")
        home.delete_net(made.name)
        return runs[1]

    def _check_touches(self) -> None:
        """What is declared to be read suffices, and what is declared to be written is all: hidden blobs included."""
        net = NetDef(name="alone", op=self.ops)
        touched, home = touched_by(net), Workspace()
        for name in touched.reads:
            if name in self.fed:
                home.feed(name, self.fed[name])
        home.run_net_once(net)
        there = set(home.blob_names())
        changed = {n for n in self.fed if n in there and home.fetch(n).tobytes() != self.fed[n].tobytes()}
        written = changed | there - self.fed.keys()
        assert written <= set(touched.writes), f"{sorted(written - set(touched.writes))} are written, undeclared"
        assert touched.certain <= there, f"{sorted(touched.certain - there)} were not written, declared as certain"
        for name, value in self.leaves.items():
            assert_close(home.fetch(name), value, self.slack)

    def _gradient(self) -> tuple[list[OperatorDef], dict[str, Array], dict[str, str]]:
        """Return the backward pass, the gradients that it is given, and those that it makes, by name."""
        if not self.targets:
            return [], {}, {}
        random = np.random.default_rng(0)
        emitted, names = backward_pass(self.ops, {name: f"{name}_given" for name in self.targets})
        shapes = {name: np.shape(self.leaves[name]) for name in self.targets}
        given = {f"{name}_given": random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        floats = [name for name, value in self.fed.items() if value.dtype == np.float32]
        return list(emitted), {**given}, {name: str(names[name]) for name in floats if name in names}

    def _check_gradients(self, gradients: Values, given: Values) -> None:
        """Compare with central differences in float64, in one direction of each blob; see `check.check_gradient`."""
        random = np.random.default_rng(1)
        assert bool(gradients) == bool(self.targets)

        def along(name: str, direction: Array, step: float) -> float:
            values = {n: v.astype(np.float64) if v.dtype == np.float32 else v.copy() for n, v in self.fed.items()}
            values[name] += step * direction
            self.evaluate(NetDef(op=self.ops), values)
            return sum(float(np.sum(given[f"{target}_given"] * values[target])) for target in self.targets)

        for name, gradient in gradients.items():
            norm = float(np.linalg.norm(gradient.astype(np.float64)))
            allowed = self.slack * RELATIVE * max(1.0, norm)
            middle = along(name, np.zeros(gradient.shape), 0.0)
            analytic, numeric = in_some_direction(
                gradient, lambda direction, step, name=name: along(name, direction, step), middle, allowed, random
            )
            assert abs(analytic - numeric) <= allowed, f"gradient of {name}: {analytic} for {numeric}"


def on_nested(cases: list[Nested]) -> Any:
    """Parametrize a test over nested nets."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.id)
