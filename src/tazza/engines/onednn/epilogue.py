"""Epilogues as post-ops: what follows a convolution or product, element by element, inside of the same primitive.

An epilogue is an expression over y and s0, s1 ... It is peeled from the outside: each layer must be one of `LAYERS`, of
one part with y in it. What is not of that form is not translated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

import numpy as np

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.primitive import (
    Accumulate,
    Attributes,
    Binary,
    Eltwise,
    PostOp,
    PrimitiveDescriptor,
    describe,
    post_op,
)
from tazza.operator import Expression, OpView
from tazza.tensor import DataType
from tazza.tensor.expression import Node

LARGEST = 3.4028234663852886e38  # of float32; oneDNN clips between finite bounds


@dataclass(frozen=True, slots=True)
class WithOperand:
    """A layer y = f(y, s_k); `algorithm` such as "binary_add"."""

    algorithm: str
    position: int


KEPT = Part("overwritten operand")

Step: TypeAlias = Eltwise | WithOperand
Layer: TypeAlias = "Eltwise | str | Callable[[float, float], Eltwise | None]"
"""A step, the algorithm of one with an operand, or what makes a step of two numbers; None where it is none of these."""


def _linear(alpha: float, beta: float) -> Eltwise:
    return Eltwise("eltwise_linear", alpha, beta)


def _clip(low: float, high: float) -> Eltwise | None:
    return Eltwise("eltwise_clip", max(low, -LARGEST), min(high, LARGEST)) if low <= high else None


_NAMESAKES = "relu", "tanh", "exp", "log", "sqrt", "abs", "square"

_CHOSEN: dict[str, tuple[Layer, ...]] = {
    "0": (Eltwise("eltwise_relu"),),
    "a * e": (lambda a, b: Eltwise("eltwise_relu", a),),
    "expm1(e)": (Eltwise("eltwise_elu", 1.0),),
    "exp(e) - 1": (Eltwise("eltwise_elu", 1.0),),
    "a * expm1(e)": (lambda a, b: Eltwise("eltwise_elu", a),),
    "a * (exp(e) - 1)": (lambda a, b: Eltwise("eltwise_elu", a),),
}
"""What stands where e is not above 0, with e elsewhere."""

LAYERS: dict[str, tuple[Layer, ...]] = {
    **{f"{name}(e)": (Eltwise(f"eltwise_{name}"),) for name in _NAMESAKES},
    "sigmoid(e)": (Eltwise("eltwise_logistic"),),
    "cube(e)": (Eltwise("eltwise_pow", 1.0, 3.0),),
    "rsqrt(e)": (Eltwise("eltwise_pow", 1.0, -0.5),),
    "-e": (_linear(-1.0, 0.0),),
    "e + a": (lambda a, b: _linear(1.0, a),),
    "e - a": (lambda a, b: _linear(1.0, -a),),
    "a - e": (lambda a, b: _linear(-1.0, a),),
    "e * a": (lambda a, b: _linear(a, 0.0),),
    "e / a": (lambda a, b: _linear(1.0 / a, 0.0) if a else None,),
    "pow(e, a)": (lambda a, b: Eltwise("eltwise_pow", 1.0, a),),
    "max(e, 0)": (Eltwise("eltwise_relu"),),
    "max(e, a)": (lambda a, b: _clip(a, LARGEST),),
    "min(max(e, a), b)": (_clip,),
    "min(e, b)": (lambda a, b: _clip(-LARGEST, b),),
    "e + s": ("binary_add",),
    "e * s": ("binary_mul",),
    "e - s": ("binary_sub",),
    "e / s": ("binary_div",),
    "max(e, s)": ("binary_max",),
    "min(e, s)": ("binary_min",),
    "s - e": (_linear(-1.0, 0.0), "binary_add"),
    **{f"where(e {sign} 0, e, {other})": layer for other, layer in _CHOSEN.items() for sign in (">", ">=")},
    "e * sigmoid(e)": (Eltwise("eltwise_swish", 1.0),),
    "e * sigmoid(a * e)": (lambda a, b: Eltwise("eltwise_swish", a) if math.isfinite(a) else None,),
}
"""What oneDNN has behind a part e, with y in it, for numbers a and b, and s, any of s0, s1 ...; first one first."""

_COMMUTES = ("add", "mul", "max", "min")
_Y = Node("name", "y")


def translate_epilogue(expression: Expression) -> tuple[Step, ...]:
    """Return the steps from y to the expression, first one first.

    Raises:
        Unimplemented: the expression is not a chain of functions that oneDNN has.

    >>> [step.algorithm for step in translate_epilogue(Expression.parse("relu(y * 0.5 + s0)"))]
    ['eltwise_linear', 'binary_add', 'eltwise_relu']
    """
    node, steps = expression.root, list[Step]()
    while node != _Y:
        inner, layer = next(_peeled(node), (None, ()))
        if inner is None:
            raise Unimplemented(f"oneDNN has no post-ops for {Expression(node).text()!r}")
        node, steps[:0] = inner, layer
    return tuple(steps)


def _peeled(node: Node) -> Iterator[tuple[Node, tuple[Step, ...]]]:
    """Yield the part of which a node is a layer, and the steps that this layer is, for each that fits."""
    for text, layer in LAYERS.items():
        for found in _matches([(Expression.parse(text).root, node)], {}):
            numbers = [cast("float", found.get(name, 0.0)) for name in "ab"]
            made = [
                WithOperand(one, cast("int", found["s"]))
                if isinstance(one, str)
                else one(*numbers)
                if callable(one)
                else one
                for one in layer
            ]
            if None not in made:
                yield cast("Node", found["e"]), tuple(cast("list[Step]", made))


def _matches(pairs: Sequence[tuple[Node, Node]], found: dict[str, Node | float]) -> Iterator[dict[str, Node | float]]:
    """Yield what the names of patterns stand for, so that each is like the node beside it."""
    if not pairs:
        yield found
        return
    (pattern, node), *others = pairs
    if pattern.head in ("name", "constant"):
        name, value = str(pattern.value), _value(pattern, node)
        if value is not None and found.get(name, value) == value:
            yield from _matches(others, {**found, name: value})
    elif pattern.head == node.head:
        orders = [node.arguments, node.arguments[::-1]] if node.head in _COMMUTES else [node.arguments]
        for arguments in orders:
            yield from _matches([*zip(pattern.arguments, arguments, strict=True), *others], found)


def _value(pattern: Node, node: Node) -> Node | float | None:
    """Return what a node is to a name or a constant of a pattern, None where it is nothing of that kind."""
    if pattern.value == "e":
        return node if any(one == _Y for one in Expression(node).nodes()) else None
    if pattern.value == "s":
        return int(str(node.value)[1:]) if node.head == "name" and node != _Y else None
    negative = node.head == "neg"
    constant = node.arguments[0] if negative else node
    if constant.head != "constant":
        return None
    number = float(str(constant.value)) * (-1.0 if negative else 1.0)
    return None if pattern.head == "constant" and number != float(str(pattern.value)) else number


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What follows a primitive: the steps, and what the destination overwrites of the last `operands` inputs, S.

    Where an operand that the destination overwrites is added, the primitive adds to what is there; for any other use a
    copy is kept (`KEPT`), since primitives may write the destination before they end.
    """

    steps: tuple[Step, ...] = ()
    overwritten: int | None = None
    operands: int = 0

    @classmethod
    def of(cls, op: OpView) -> Epilogue:
        """Return that of an operator: nothing where it has none.

        Raises:
            Unimplemented: as for `translate_epilogue`.
        """
        if "epilogue" not in op.schema.args:
            return cls()
        overwritten = overwritten_operand(tuple(op.definition.input), op.definition.output[0], op.operands)
        return cls(translate_epilogue(Expression.parse(op.epilogue)), overwritten, op.operands)

    @property
    def elsewhere(self) -> Epilogue:
        """The same for a destination that overwrites nothing."""
        return replace(self, overwritten=None)

    def post_ops(self, target: Descriptor) -> tuple[PostOp, ...]:
        """Return the post-ops for a destination that is asked for by this descriptor, as operands are."""
        return tuple(
            step if isinstance(step, Eltwise) else Accumulate() if self._adds(step) else Binary(step.algorithm, target)
            for step in self.steps
        )

    @property
    def arguments(self) -> dict[str | int, Operand]:
        """The arguments that the post-ops need."""
        return {
            post_op(position): KEPT if step.position == self.overwritten else ("S", step.position)
            for position, step in enumerate(self.steps)
            if isinstance(step, WithOperand) and not self._adds(step)
        }

    def _adds(self, step: WithOperand) -> bool:
        """Whether the only use of the operand that is overwritten is to add it."""
        uses = sum(isinstance(one, WithOperand) and one.position == step.position for one in self.steps)
        return step.position == self.overwritten and uses == 1 and step.algorithm == "binary_add"

    def launch(
        self, found: PrimitiveDescriptor, arguments: Mapping[str | int, Operand]
    ) -> PrimitiveLaunch | SequenceLaunch:
        """Return the launch of a primitive that was described with these post-ops; its own arguments are given."""
        main = PrimitiveLaunch(found, {**arguments, **self.arguments})
        if self.overwritten is None or KEPT not in main.arguments.values():
            return main
        target = found.argument("dst")
        copy = describe("reorder", target, target, attributes=Attributes())
        return SequenceLaunch((PrimitiveLaunch(copy, {"src": ("S", self.overwritten), "dst": KEPT}), main))

    def keeps_whole(self, dtype: DataType) -> bool:
        """Whether a result must not be rounded to `dtype`: it ends at a bound that is none of its numbers.

        Rounded, what was cut off would lie within the bounds, where the gradient passes, or beyond them.
        """
        last = self.steps[-1] if self.steps else None
        if not isinstance(last, Eltwise) or last.algorithm != "eltwise_clip":
            return False
        bounds = [bound for bound in (last.alpha, last.beta) if abs(bound) < LARGEST]
        return any(float(np.float32(bound)) != float(dtype.numpy.type(bound)) for bound in bounds)


def overwritten_operand(inputs: tuple[str, ...], output: str, operands: int) -> int | None:
    """Return which of the last `operands` inputs the output overwrites, by the names of blobs, or None.

    >>> overwritten_operand(("x", "w", "s", "t"), "t", 2)
    1
    """
    last = inputs[len(inputs) - operands :]
    return last.index(output) if output in last else None
