"""Epilogues as post-ops: what follows a convolution or product, element by element, inside of the same primitive.

An epilogue is an expression over y and s0, s1 ... It is peeled from the outside: each layer must be a function that
oneDNN has, of one part with y in it, and of constants or one of the s. What is not of that form is not translated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

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
from tazza.operator import Expression
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
Match: TypeAlias = "tuple[Node, tuple[Step, ...]] | None"
"""The inner part that is left, and the steps that this layer is."""

_FUNCTIONS = {
    "relu": Eltwise("eltwise_relu"),
    "sigmoid": Eltwise("eltwise_logistic"),
    "tanh": Eltwise("eltwise_tanh"),
    "exp": Eltwise("eltwise_exp"),
    "log": Eltwise("eltwise_log"),
    "sqrt": Eltwise("eltwise_sqrt"),
    "abs": Eltwise("eltwise_abs"),
    "square": Eltwise("eltwise_square"),
    "cube": Eltwise("eltwise_pow", 1.0, 3.0),
    "rsqrt": Eltwise("eltwise_pow", 1.0, -0.5),
    "neg": Eltwise("eltwise_linear", -1.0, 0.0),
}
_BINARY = {
    "add": "binary_add",
    "mul": "binary_mul",
    "sub": "binary_sub",
    "div": "binary_div",
    "max": "binary_max",
    "min": "binary_min",
}
_COMMUTES = ("add", "mul", "max", "min")


def translate_epilogue(expression: Expression) -> tuple[Step, ...]:
    """Return the steps from y to the expression, first one first.

    Raises:
        Unimplemented: the expression is not a chain of functions that oneDNN has.

    >>> [step.algorithm for step in translate_epilogue(Expression.parse("relu(y * 0.5 + s0)"))]
    ['eltwise_linear', 'binary_add', 'eltwise_relu']
    """
    node, steps = expression.root, list[Step]()
    while node != _Y:
        for rule in _RULES:
            found = rule(node)
            if found is not None:
                node = found[0]
                steps[:0] = found[1]
                break
        else:
            raise Unimplemented(f"oneDNN has no post-ops for {Expression(node).text()!r}")
    return tuple(steps)


_Y = Node("name", "y")


def _has_y(node: Node) -> bool:
    return any(one == _Y for one in Expression(node).nodes())


def _number(node: Node) -> float | None:
    if node.head == "neg" and node.arguments[0].head == "constant":
        return -float(str(node.arguments[0].value))
    return float(str(node.value)) if node.head == "constant" else None


def _operand(node: Node) -> int | None:
    return int(str(node.value)[1:]) if node.head == "name" and node != _Y else None


def _function(node: Node) -> Match:
    """F(e)."""
    step = _FUNCTIONS.get(node.head)
    return None if step is None else (node.arguments[0], (step,))


def _two_parts(node: Node) -> tuple[Node, Node, bool] | None:
    """Return the part with y, the other one, and whether they stand in this order."""
    if node.head not in (*_BINARY, "pow"):
        return None
    left, right = node.arguments
    if _has_y(left) == _has_y(right):
        return None
    return (left, right, True) if _has_y(left) else (right, left, False)


def _with_constant(node: Node) -> Match:
    """E + c, c - e, e * c, e / c, max(e, c), min(e, c), pow(e, c), the clip of both."""
    parts = _two_parts(node)
    value = None if parts is None else _number(parts[1])
    if parts is None or value is None:
        return None
    inner, _, ordered = parts
    linear = {
        ("add", True): (1.0, value),
        ("add", False): (1.0, value),
        ("sub", True): (1.0, -value),
        ("sub", False): (-1.0, value),
        ("mul", True): (value, 0.0),
        ("mul", False): (value, 0.0),
    }
    if (node.head, ordered) in linear:
        return inner, (Eltwise("eltwise_linear", *linear[node.head, ordered]),)
    if node.head == "div" and ordered and value != 0:
        return inner, (Eltwise("eltwise_linear", 1.0 / value, 0.0),)
    if node.head == "pow" and ordered:
        return inner, (Eltwise("eltwise_pow", 1.0, value),)
    if node.head in ("max", "min"):
        return _clip(node.head, inner, value)
    return None


def _clip(head: str, inner: Node, value: float) -> Match:
    if head == "max":
        step = Eltwise("eltwise_relu") if value == 0 else Eltwise("eltwise_clip", max(value, -LARGEST), LARGEST)
        return inner, (step,)
    below = _two_parts(inner) if inner.head == "max" else None
    bound = None if below is None else _number(below[1])
    if below is None or bound is None or bound > value:
        return inner, (Eltwise("eltwise_clip", -LARGEST, min(value, LARGEST)),)
    return below[0], (Eltwise("eltwise_clip", max(bound, -LARGEST), min(value, LARGEST)),)


def _with_operand(node: Node) -> Match:
    """E + s, e * s and the like; s - e as s + (-e)."""
    parts = _two_parts(node)
    position = None if parts is None else _operand(parts[1])
    if parts is None or position is None or node.head not in _BINARY:
        return None
    if parts[2] or node.head in _COMMUTES:
        return parts[0], (WithOperand(_BINARY[node.head], position),)
    if node.head == "sub":
        return parts[0], (Eltwise("eltwise_linear", -1.0, 0.0), WithOperand("binary_add", position))
    return None


def _chosen(node: Node) -> Match:
    """where(e > 0, e, f(e)): leaky rectifiers and exponential ones."""
    if node.head != "where":
        return None
    condition, inner, other = node.arguments
    if condition.head not in ("gt", "ge") or condition.arguments[0] != inner or _number(condition.arguments[1]) != 0:
        return None
    if other.head == "mul":
        for factor, rest in (other.arguments, other.arguments[::-1]):
            slope = _number(factor)
            if slope is not None and rest == inner:
                return inner, (Eltwise("eltwise_relu", slope),)
            if slope is not None and _is_expm1(rest, inner):
                return inner, (Eltwise("eltwise_elu", slope),)
    if _is_expm1(other, inner):
        return inner, (Eltwise("eltwise_elu", 1.0),)
    return (inner, (Eltwise("eltwise_relu"),)) if _number(other) == 0 else None


def _is_expm1(node: Node, inner: Node) -> bool:
    if node.head == "sub" and _number(node.arguments[1]) == 1:
        return node.arguments[0].head == "exp" and node.arguments[0].arguments[0] == inner
    return node.head == "expm1" and node.arguments[0] == inner


def _swish(node: Node) -> Match:
    """E * sigmoid(e), e * sigmoid(a * e)."""
    if node.head != "mul":
        return None
    for inner, gate in (node.arguments, node.arguments[::-1]):
        if gate.head != "sigmoid":
            continue
        inside = gate.arguments[0]
        if inside == inner:
            return inner, (Eltwise("eltwise_swish", 1.0),)
        if inside.head == "mul" and inner in inside.arguments:
            alpha = _number(inside.arguments[1 - inside.arguments.index(inner)])
            if alpha is not None and math.isfinite(alpha):
                return inner, (Eltwise("eltwise_swish", alpha),)
    return None


_RULES: tuple[Callable[[Node], Match], ...] = (_function, _with_constant, _with_operand, _chosen, _swish)


def keeps_whole(steps: tuple[Step, ...], dtype: DataType) -> bool:
    """Whether a result must not be rounded to `dtype`: it ends at a bound that is none of its numbers.

    Rounded, what was cut off would lie within the bounds, where the gradient passes, or beyond them.
    """
    last = steps[-1] if steps else None
    if not isinstance(last, Eltwise) or last.algorithm != "eltwise_clip":
        return False
    bounds = [bound for bound in (last.alpha, last.beta) if abs(bound) < LARGEST]
    return any(float(np.float32(bound)) != float(dtype.numpy.type(bound)) for bound in bounds)


def post_ops(
    steps: tuple[Step, ...], target: Descriptor, overwritten: int | None = None, letter: str = "S"
) -> tuple[tuple[PostOp, ...], dict[str | int, Operand]]:
    """Return the post-ops, and the arguments that they need; `epilogue_launch` makes a launch of both.

    Args:
        steps: from `translate_epilogue`.
        target: the descriptor by which the destination is asked for; operands are asked for by the same.
        overwritten: which s the destination overwrites. Where it is added, the primitive adds to what is there; for
            any other use a copy is kept (`KEPT`), since primitives may write the destination before they end.
        letter: the variadic letter of the operands.
    """
    made, arguments = list[PostOp](), dict[str | int, Operand]()
    for position, step in enumerate(steps):
        if isinstance(step, Eltwise):
            made.append(step)
        elif step.position == overwritten and _is_added_once(steps, step):
            made.append(Accumulate())
        else:
            made.append(Binary(step.algorithm, target))
            arguments[post_op(position)] = KEPT if step.position == overwritten else (letter, step.position)
    return tuple(made), arguments


def _is_added_once(steps: tuple[Step, ...], step: WithOperand) -> bool:
    uses = [one for one in steps if isinstance(one, WithOperand) and one.position == step.position]
    return len(uses) == 1 and step.algorithm == "binary_add"


def epilogue_launch(
    found: PrimitiveDescriptor,
    arguments: Mapping[str | int, Operand],
    steps: tuple[Step, ...],
    overwritten: int | None = None,
    letter: str = "S",
) -> PrimitiveLaunch | SequenceLaunch:
    """Return the launch of a primitive that was described with the post-ops of these steps.

    Args:
        found: the primitive.
        arguments: its own arguments, without those of the post-ops.
        steps: as for `post_ops`, like what follows.
        overwritten: which s the destination overwrites; its descriptor is then that of the destination.
        letter: the variadic letter of the operands.
    """
    target = found.argument("dst")
    operands = post_ops(steps, target, overwritten, letter)[1]
    main = PrimitiveLaunch(found, {**arguments, **operands})
    if overwritten is None or KEPT not in operands.values():
        return main
    copy = describe("reorder", target, target, attributes=Attributes())
    return SequenceLaunch((PrimitiveLaunch(copy, {"src": (letter, overwritten), "dst": KEPT}), main))


def overwritten_operand(inputs: tuple[str, ...], output: str, operands: int) -> int | None:
    """Return which of the last `operands` inputs the output overwrites, by the names of blobs, or None.

    >>> overwritten_operand(("x", "w", "s", "t"), "t", 2)
    1
    """
    last = inputs[len(inputs) - operands :]
    return last.index(output) if output in last else None
