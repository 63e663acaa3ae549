"""Gradients of random nets with branches, loops and scopes inside against central differences in float64.

The net runs in float32, with the gradient operators of its own backward pass; what it should give is computed from a
plain evaluation of the forward net in float64 (`tests.nets.nested.evaluate`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import GradientError
from tazza.graph import backward_pass
from tazza.operator import SCHEMAS, operator_def, touched_by
from tazza.operator.gradient import GradientRule
from tazza.operator.nested import nested_nets
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.nets.nested import CONDITIONS, INDICES, NESTED, SHAPE, Array, Drawing, do_of, evaluate, fed

INPUTS: tuple[str, ...] = ("a", "b", "d", "e", "w")
FEW, MANY = 12, 60
EPSILON = 1e-6


class Differentiable(Drawing):
    """Draws nets that overwrite nothing which a gradient needs: each operator writes a blob of its own.

    But what branches and rounds hand on: that is written last, by a Scale, whose gradient needs no value.
    """

    def forward(self) -> tuple[NetDef, str]:
        """Return a net and the blob that is its result."""
        there = list(INPUTS)
        ops: list[OperatorDef] = []
        for kind in (self.plain, self.either, self.plain, self.either):
            ops += kind(there, 2)
        ops.append(operator_def("Sum", [there[-1], self.random.choice(there), self.random.choice(there)], ["result"]))
        return NetDef(name="forward", op=ops), "result"

    def either(self, there: list[str], depth: int) -> list[OperatorDef]:
        """Return one of the operators with nets."""
        return self.random.choice([self.chosen, self.numbered, self.rounds, self.scoped])(there, depth)

    def plain(self, there: list[str], depth: int) -> list[OperatorDef]:
        """Return some operators without nets."""
        del depth
        made: list[OperatorDef] = []
        for _ in range(self.random.randint(1, 3)):
            target = self.fresh("t")
            kind = self.random.choice(["Mul", "Add", "Tanh", "Sigmoid", "Scale"])
            inputs = [self.random.choice(there) for _ in range(2 if kind in ("Mul", "Add") else 1)]
            arguments: dict[str, Any] = {"scale": -1.5} if kind == "Scale" else {}
            made.append(operator_def(kind, inputs, [target], **arguments))
            there.append(target)
        return made

    def inside(self, there: list[str], depth: int, target: str, *, changes: bool = False) -> NetDef:
        """Return a net that writes `target` last; what `changes` it reads it first, by a Scale: that needs no value."""
        seen, ops = list(there), list[OperatorDef]()
        if changes:
            seen.append(self.fresh("t"))
            ops.append(operator_def("Scale", [target], [seen[-1]], scale=1.25))
        ops += self.plain(seen, 0)
        if depth and self.random.random() < 0.5:
            ops += self.either(seen, depth - 1)
        ops.append(operator_def("Scale", [seen[-1]], [target], scale=0.5))
        return NetDef(name=self.fresh("net"), op=ops)

    def wrapped(
        self, net: NetDef, there: list[str], target: str, **arguments: bool
    ) -> tuple[list[OperatorDef], NetDef]:
        """Return a net that runs the given one in a scope, and what has to run before."""
        stack = self.fresh("s")
        reads = [
            name for name in touched_by(net).reads if name in (*there, *CONDITIONS, *INDICES, "zero", "one", target)
        ]
        do = do_of(net, reads, [target], stack, **arguments)
        return [operator_def("CreateScope", [], [stack])], NetDef(name=self.fresh("net"), op=[do])

    def chosen(self, there: list[str], depth: int) -> list[OperatorDef]:
        """Return an If that makes a blob, or changes one."""
        alone = self.random.random() < 0.4
        before: list[OperatorDef] = []
        target = self.fresh("t")
        if alone:
            before.append(operator_def("Scale", [self.random.choice(there)], [target], scale=2.0))
        nets: dict[str, Any] = {}
        for name in ("then_net",) if alone else ("then_net", "else_net"):
            net = self.inside(there, depth, target, changes=alone and self.random.random() < 0.5)
            if self.random.random() < 0.7:
                more, net = self.wrapped(net, there, target)
                before += more
            nets[name] = net
        there.append(target)
        condition = self.random.choice(["c0", "c1"])
        reads = [name for net in nets.values() for name in touched_by(net).reads]
        inputs = self.listed(list(dict.fromkeys(name for name in reads if name != condition)))
        return [*before, operator_def("If", [condition, *inputs], self.listed([target]), **nets)]

    def numbered(self, there: list[str], depth: int) -> list[OperatorDef]:
        """Return a Switch that makes a blob."""
        target, before, nets = self.fresh("t"), list[OperatorDef](), list[NetDef]()
        for _ in INDICES:
            net = self.inside(there, depth, target)
            if self.random.random() < 0.5:
                more, net = self.wrapped(net, there, target)
                before += more
            nets.append(net)
        made = self.choosing("Switch", self.random.choice(INDICES), there, **self.alternatives(nets))
        there.append(target)
        return [*before, made]

    def rounds(self, there: list[str], depth: int) -> list[OperatorDef]:
        """Return a While that changes a blob up to three times."""
        state, count, asked = self.fresh("t"), self.fresh("n"), self.fresh("asked")
        first = self.random.randint(0, 3)
        before = [
            operator_def("Scale", [self.random.choice(there)], [state], scale=2.0),
            operator_def("ConstantFill", [], [count], shape=[1], value=first, dtype=10),
            operator_def("GT", ["zero", "one"], [asked]),
        ]
        body = self.inside(there, depth, state, changes=self.random.random() < 0.8)
        more, loop = self.wrapped(body, there, state, copy_external_blobs=True)
        do = loop.op[0]
        if state not in do.input:  # as Caffe2's builder has it: there may be no round
            names = [*do.input[:-1], state]
            arguments = {"copy_external_blobs": True}
            loop.op[0].CopyFrom(do_of(body, names, [state], do.input[-1], **arguments))
        counting = NetDef(name=self.fresh("net"), op=[operator_def("Sub", [count, "one"], [count])])
        asking = NetDef(name=self.fresh("net"), op=[*counting.op, operator_def("GE", [count, "zero"], [asked])])
        there.append(state)
        return [*before, *more, operator_def("While", [asked], [], loop_net=loop, cond_net=asking)]

    def scoped(self, there: list[str], depth: int) -> list[OperatorDef]:
        """Return a Do that makes a blob."""
        target = self.fresh("t")
        before, net = self.wrapped(self.inside(there, depth, target), there, target)
        there.append(target)
        return [*before, *net.op]


def result(net: NetDef, values: dict[str, Array]) -> Array:
    """Return the result of a net in float64."""
    made = dict(values)
    evaluate(net, made)
    return made["result"]


def check(seed: int) -> set[str]:
    """Compare the gradients of one net with differences; return which inputs had one."""
    net, target = Differentiable(seed).forward()
    emitted, gradients = backward_pass(net.op, {target: "given"})
    home = Workspace()
    start = fed(seed)
    given = np.random.default_rng(seed).uniform(-1, 1, SHAPE).astype(np.float32)
    for name, value in (*start.items(), ("given", given)):
        home.feed(name, value)
    home.run_net_once(NetDef(name="n", op=[*net.op, *emitted]))
    exact = {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in start.items()}
    for name in INPUTS:
        wanted = np.zeros(SHAPE)
        for place in range(SHAPE[0]):
            step = np.zeros(SHAPE)
            step[place] = EPSILON
            change = result(net, {**exact, name: exact[name] + step}) - result(net, {**exact, name: exact[name] - step})
            wanted[place] = (change * given).sum() / (2 * EPSILON)
        found = home.fetch(str(gradients[name])) if name in gradients else np.zeros(SHAPE)
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5, err_msg=f"{name}, seed {seed}")
    return set(gradients) & set(INPUTS)


@pytest.mark.slow
def test_gradients_are_the_derivatives() -> None:
    assert sum(len(check(seed)) for seed in range(MANY)) > 2 * MANY


def with_nets() -> set[str]:
    """Return the operators that run nets of theirs as they are written; steps, which may be text, are tested apart."""
    specs = {type: [spec for spec in SCHEMAS[type].args.values() if spec.holds_nets] for type in SCHEMAS.keys()}
    return {type for type, nets in specs.items() if nets and not any(spec.takes(str) for spec in nets)}


@pytest.mark.slow
def test_every_operator_with_nets_is_drawn() -> None:
    """One that is new needs a row of `NESTED`, and a draw in `Drawing`; with a gradient one in `Differentiable` too."""
    assert set(NESTED) == with_nets()
    assert {op.type for seed in range(20) for op in Drawing(seed).net().op} >= with_nets()
    differentiable = {type for type in with_nets() if isinstance(SCHEMAS[type].gradient_rule, GradientRule)}
    assert {op.type for seed in range(20) for op in Differentiable(seed).forward()[0].op} >= differentiable


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["chosen", "numbered"])
def test_a_branch_that_overwrites_what_chose_it_has_no_gradient(kind: str) -> None:
    for seed in range(FEW):
        for wanted in (True, False):
            draw, there = Differentiable(seed), list(INPUTS)
            ops = getattr(draw, kind)(there, 1)
            nets = list(nested_nets(ops[-1]))
            if wanted:
                over = draw.random.choice(nets)
                over.op.append(operator_def("Copy", ["other"], [ops[-1].input[0]]))
            if wanted:
                with pytest.raises(GradientError, match=r"needs"):
                    backward_pass(ops, {there[-1]: "given"})
            else:
                assert backward_pass(ops, {there[-1]: "given"})[0]
