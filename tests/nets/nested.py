"""Random nets with branches, loops and scopes inside, and a plain evaluation of such nets in float64.

What a net within reads and writes is listed by the operator, or is not, by chance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.operator import find_argument, operator_def, touched_by, touches
from tazza.operator.nested import nested_nets
from tazza.proto import Argument, NetDef, OperatorDef, TensorProto
from tazza.workspace import Workspace

Array = NDArray[Any]
VALUES: tuple[str, ...] = ("a", "b", "d", "e")
CONDITIONS: tuple[str, ...] = ("c0", "c1")
INDICES: tuple[str, ...] = ("i0", "i1", "i2")
SHAPE = (3,)


def fed(seed: int = 0) -> dict[str, Array]:
    """Return the values that every net begins with."""
    numbers = np.random.default_rng(seed)
    made: dict[str, Array] = {name: numbers.uniform(-1, 1, SHAPE).astype(np.float32) for name in (*VALUES, "w")}
    made.update(zero=np.array([0], np.int64), one=np.array([1], np.int64))
    made.update(c0=np.array([True]), c1=np.array([False]))
    made.update((name, np.array([number], np.int64)) for number, name in enumerate(INDICES))
    return made


def feed(home: Workspace, seed: int = 0) -> None:
    """Put these values into a workspace."""
    for name, value in fed(seed).items():
        home.feed(name, value)


class Drawing:
    """Draws operators; `sure` are blobs that are there for certain, beside those that are fed."""

    def __init__(self, seed: int) -> None:
        """Begin anew."""
        self.random = random.Random(seed)
        self.count = 0

    def net(self) -> NetDef:
        """Return a net."""
        sure = list(VALUES)
        ops = self.block(2, sure)
        while not any(next(nested_nets(op), None) is not None for op in ops):
            ops += self.block(2, sure)
        return NetDef(name="drawn", op=ops)

    def block(self, depth: int, sure: list[str]) -> list[OperatorDef]:
        """Return some operators in order; what they surely make joins `sure`."""
        made: list[OperatorDef] = []
        for _ in range(self.random.randint(1, 3)):
            kinds = [self.sum, self.sum, self.change, self.decide]
            if depth:
                kinds += [self.branch, self.switch, self.loop, self.scope, self.handing_on]
            for op in self.random.choice(kinds)(depth, sure):
                made.append(op)
                sure.extend(name for name in touches(op).certain if name.startswith("t") and name not in sure)
        return made

    def fresh(self, letter: str) -> str:
        """Return a name that nothing has."""
        self.count += 1
        return f"{letter}{self.count}"

    def target(self, *others: str) -> str:
        """Return what to write: a blob that is there, or a new one."""
        name = self.random.choice([*VALUES, self.fresh("t")])
        return self.target(*others) if name in others else name

    def sum(self, depth: int, sure: list[str]) -> list[OperatorDef]:
        """Return an operator of two inputs."""
        del depth
        inputs = [self.random.choice(sure), self.random.choice(sure)]
        if self.random.random() < 0.3:
            inputs[1] = "w"
            return [operator_def("Mul", inputs, [self.target(*inputs)])]
        return [operator_def(self.random.choice(["Add", "Sub"]), inputs, [self.target(*inputs)])]

    def change(self, depth: int, sure: list[str]) -> list[OperatorDef]:
        """Return an operator of one input, maybe in place."""
        del depth
        source = self.random.choice(sure)
        target = source if self.random.random() < 0.4 else self.target(source)
        kind = self.random.choice(["Tanh", "Sigmoid", "Relu", "Scale"])
        arguments: dict[str, Any] = {"scale": 0.5} if kind == "Scale" else {}
        return [operator_def(kind, [source], [target], **arguments)]

    def decide(self, depth: int, sure: list[str]) -> list[OperatorDef]:
        """Return what sets a condition."""
        del depth, sure
        inputs = self.random.choice([["one", "zero"], ["zero", "one"]])
        return [operator_def("GT", inputs, [self.random.choice(CONDITIONS)])]

    def listed(self, names: Sequence[str]) -> list[str]:
        """Return some of these names."""
        return [name for name in names if self.random.random() < 0.5]

    def within(self, depth: int, sure: Sequence[str]) -> tuple[list[OperatorDef], NetDef]:
        """Return a net for an operator, and what has to run before it."""
        body = self.block(depth - 1, list(sure))
        if self.random.random() < 0.5:
            return [], NetDef(
                name=self.fresh("net"), op=body, type=self.random.choice(["", "", "", "async_scheduling"])
            )
        before, do = self.bound(body)
        return before, NetDef(name=self.fresh("net"), op=[do])

    def bound(self, body: Sequence[OperatorDef]) -> tuple[list[OperatorDef], OperatorDef]:
        """Return operators in a scope, where new blobs are local."""
        net = NetDef(name=self.fresh("scoped"), op=body)
        touched, stack = touched_by(net), self.fresh("s")
        reads = [name for name in touched.reads if not is_stack(name)]
        writes = [name for name in touched.writes if name in (*VALUES, *CONDITIONS)]
        arguments = {"copy_external_blobs": True} if self.random.random() < 0.3 else {}
        return [operator_def("CreateScope", [], [stack])], do_of(net, reads, writes, stack, **arguments)

    def scope(self, depth: int, sure: list[str]) -> list[OperatorDef]:
        """Return a Do."""
        before, do = self.bound(self.block(depth - 1, list(sure)))
        return [*before, do]

    def branch(self, depth: int, sure: list[str]) -> list[OperatorDef]:
        """Return an If."""
        before, then = self.within(depth, sure)
        nets: dict[str, Any] = {"then_net": then}
        if self.random.random() < 0.5:
            more, nets["else_net"] = self.within(depth, sure)
            before += more
        return [*before, self.choosing("If", self.random.choice(CONDITIONS), sure, **nets)]

    def switch(self, depth: int, sure: list[str]) -> list[OperatorDef]:
        """Return a Switch, of two nets with a default, or of as many as there are indices."""
        before: list[OperatorDef] = []
        made: list[NetDef] = []
        for _ in INDICES:
            more, net = self.within(depth, sure)
            before += more
            made.append(net)
        return [*before, self.choosing("Switch", self.random.choice(INDICES), sure, **self.alternatives(made))]

    def alternatives(self, nets: list[NetDef]) -> dict[str, Any]:
        """Return arguments of a Switch of these nets: the last one is the default, by chance."""
        return self.random.choice([{"branches": nets}, {"branches": nets[:-1], "default_net": nets[-1]}])

    def choosing(self, type: str, chooses: str, sure: Sequence[str], **nets: Any) -> OperatorDef:
        """Return an operator of which the blob `chooses` says what runs; it lists some of what the nets touch."""
        touched = touches(operator_def(type, [chooses], [], **nets))
        there = [name for name in touched.reads if name in (*sure, "w", "one", "zero")]
        inputs = [name for name in self.listed(there) if name != chooses]
        return operator_def(type, [chooses, *inputs], self.listed(touched.writes), **nets)

    def loop(self, depth: int, sure: list[str]) -> list[OperatorDef]:
        """Return a While that runs up to three rounds."""
        rounds, asked = self.fresh("n"), self.fresh("asked")
        before, body = self.within(depth, sure)
        body.op.append(operator_def("Sub", [rounds, "one"], [rounds]))
        condition = NetDef(name=self.fresh("net"), op=[operator_def("GT", [rounds, "zero"], [asked])])
        first = self.random.randint(0, 3)
        start = operator_def("ConstantFill", [], [rounds], shape=[1], value=first, dtype=TensorProto.INT64)
        begin = operator_def("GT", ["zero", "one"], [asked])
        nets: dict[str, Any] = {"loop_net": body, "cond_net": condition}
        touched = touches(operator_def("While", [asked], [], **nets))
        there = [name for name in touched.reads if name in (*sure, "w", "one", "zero")]
        op = operator_def("While", [asked, *self.listed(there)], self.listed(touched.writes), **nets)
        return [*before, start, begin, op]

    def handing_on(self, depth: int, sure: list[str]) -> list[OperatorDef]:
        """Return an ONNXWhile of up to three rounds, which hands on two blobs and makes a list, that nobody reads."""
        del depth
        most, number, holds, x, y, z = (self.fresh(letter) for letter in "nkhuuu")
        body = NetDef(name=self.fresh("net"), external_input=[number, holds, x, y], external_output=[holds, y, z, z])
        body.op.append(operator_def(self.random.choice(["Add", "Sub"]), [x, y], [z]))
        first = self.random.randint(0, 3)
        start = operator_def("ConstantFill", [], [most], shape=[1], value=first, dtype=TensorProto.INT64)
        inputs = [most, self.random.choice(CONDITIONS), self.random.choice(sure), self.random.choice(sure)]
        one = self.target(*inputs)
        outputs = [one, self.target(one, *inputs), self.fresh("list")]
        ends: dict[str, Any] = {"has_cond": self.random.random() < 0.5, "disable_scopes": self.random.random() < 0.5}
        return [start, operator_def("ONNXWhile", inputs, outputs, body=body, has_trip_count=True, **ends)]


def is_stack(name: str) -> bool:
    """Whether a name is that of a stack of scopes."""
    return name.startswith("s") and name[1:].isdigit()


def do_of(net: NetDef, reads: Sequence[str], writes: Sequence[str], stack: str, **arguments: Any) -> OperatorDef:
    """Return a Do that binds names to themselves."""
    outer = [*reads, *writes]
    names = list(dict.fromkeys(outer))
    places = [outer.index(name) for name in names]
    bound: dict[str, Any] = {"inner_blobs": names, "outer_blobs_idx": places} if names else {}
    return operator_def("Do", [*reads, stack], [*writes, stack], net=net, **bound, **arguments)


# -- in float64 --------------------------------------------------------------------------------------------------------

Values = dict[str, Array]


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _sum(*values: Array) -> Array:
    return np.stack(values).sum(axis=0)


PLAIN: Mapping[str, Callable[..., Any]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "GT": np.greater,
    "GE": np.greater_equal,
    "Sum": _sum,
    "Tanh": np.tanh,
    "Sigmoid": _sigmoid,
    "Relu": _relu,
}


def evaluate(net: NetDef, values: Values) -> None:
    """Run a net on arrays by name, float64 where they are floats, in the plainest way."""
    for op in net.op:
        _evaluate(op, values)


def _either(op: OperatorDef, values: Values) -> None:
    chosen: NetDef = next(argument.n for argument in op.arg if argument.name == "then_net")
    if not values[op.input[0]].item():
        others = [argument.n for argument in op.arg if argument.name == "else_net"]
        chosen = others[0] if others else NetDef()
    evaluate(chosen, values)


def _numbered(op: OperatorDef, values: Values) -> None:
    found: dict[str, Argument] = {argument.name: argument for argument in op.arg}
    index, branches = int(values[op.input[0]].item()), list(found["branches"].nets)
    evaluate(branches[index] if 0 <= index < len(branches) else found["default_net"].n, values)


def _again(op: OperatorDef, values: Values) -> None:
    nets = {argument.name: argument.n for argument in op.arg}
    while True:
        evaluate(nets["cond_net"], values)
        if not values[op.input[0]].item():
            return
        evaluate(nets["loop_net"], values)


def _scoped(op: OperatorDef, values: Values) -> None:
    (net,) = nested_nets(op)
    inner, places = find_argument(op, "inner_blobs"), find_argument(op, "outer_blobs_idx")
    outer = [*op.input[:-1], *op.output[:-1]]
    bound = {} if inner is None or places is None else dict(zip(inner.strings, places.ints, strict=True))
    local = {name.decode(): values[outer[place]] for name, place in bound.items() if outer[place] in values}
    evaluate(net, local)
    values.update((outer[place], local[name.decode()]) for name, place in bound.items() if name.decode() in local)


def _handed_on(op: OperatorDef, values: Values) -> None:
    (body,) = nested_nets(op)
    said = {argument.name: argument.i for argument in op.arg}
    local = values if said["disable_scopes"] else {}
    number, condition, *bound = body.external_input
    most, holds, *handed = (values[name] for name in op.input)
    lists: list[list[Array]] = [[] for _ in op.output[len(bound) :]]
    count = 0
    while True:
        local.update(zip((number, condition, *bound), (np.array(count), holds, *handed), strict=True))
        if count == most.item() or (said["has_cond"] and not holds.item()):
            break
        evaluate(body, local)
        holds, *left = (local[name] for name in body.external_output)
        handed = left[: len(bound)]
        for found, element in zip(lists, left[len(bound) :], strict=True):
            found.append(element)
        count += 1
    joined = [np.concatenate(found) if found else np.zeros(0, np.int32) for found in lists]
    values.update(zip(op.output, (*handed, *joined), strict=True))


NESTED: Mapping[str, Callable[[OperatorDef, Values], None]] = {
    "If": _either,
    "Switch": _numbered,
    "While": _again,
    "Do": _scoped,
    "ONNXWhile": _handed_on,
}
"""What operators with nets mean; a test holds it to the schemas."""


def _evaluate(op: OperatorDef, values: Values) -> None:
    if op.type in NESTED:
        NESTED[op.type](op, values)
    elif op.type == "Scale":
        scale = find_argument(op, "scale")
        values[op.output[0]] = values[op.input[0]] * (1.0 if scale is None else scale.f)
    elif op.type == "ConstantFill":
        value = find_argument(op, "value")
        values[op.output[0]] = np.array([0 if value is None else value.i])
    elif op.type != "CreateScope":
        values[op.output[0]] = PLAIN[op.type](*(values[name] for name in op.input))
