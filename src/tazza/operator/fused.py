"""Operators that are another one with something behind it: everything of theirs follows from the two.

    @family({"SumRelu": Joined(SUM, RELU)})
    def joined(type: str, row: Joined) -> OpSchema:
        return fused(type, row.base, row.then, doc="Y = max(X0 + X1 + ..., 0).", example=...)

What stands behind is an operator that may overwrite its one input, or a `Tail`, which may have operands and arguments
of its own. The schema is the base's with these added; shapes are the base's; the cost is that of both without the way
through memory between them; the reference kernel is the base's, then the other's. The gradient is that of the other,
then the base's, where both have one and neither reads what is between, which nobody keeps.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import GradientError, SchemaError
from tazza.operator.argument import ArgSpec
from tazza.operator.by_letter import with_names
from tazza.operator.cost import Cost, streamed
from tazza.operator.gradient import (
    GradientMaker,
    GradientRequest,
    NoGradient,
    answered_request,
    gradient_for_op,
)
from tazza.operator.in_place import InPlace
from tazza.operator.kernel import KERNELS, Array, kernel, kernel_key
from tazza.operator.letter import PLAIN, BlobSpec
from tazza.operator.registry import schema
from tazza.operator.schema import OpSchema
from tazza.operator.view import OpView
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

Values: TypeAlias = "Mapping[str, Any]"


def _nothing(op: OpView, Y: TensorSpec, operands: Mapping[str, Any]) -> None:
    del op, Y, operands


@dataclass(frozen=True, slots=True)
class Tail:
    """What becomes of the first output of an operator, y, before anybody sees it.

    Attributes:
        flops: operations for each element, of an operator's view.
        apply: `apply(op, y, values, Y)` writes Y from y, which is another array; `values` are those that the kernel was
            given, by name.
        inputs: operands beside y.
        args: arguments beside the base's.
        validate: checks these.
        check: `check(op, Y, operands)` checks the specs of operands against that of Y.
        name_inputs: `name_inputs(letters, least)` gives the rule by which inputs are told from operands, as
            `OpSchema.name_inputs` takes it, for a base with these letters, of which at least so many are given.
    """

    flops: Callable[[OpView], int]
    apply: Callable[[OpView, Array, Values, Array], None]
    inputs: tuple[BlobSpec, ...] = ()
    args: tuple[ArgSpec, ...] = ()
    validate: Callable[[OpView], None] | None = None
    check: Callable[[OpView, TensorSpec, Values], None] = _nothing
    name_inputs: Callable[[Sequence[str], int], Callable[[OpView, int], tuple[str, ...]]] | None = None


def fused(
    type: str,
    base: OpSchema,
    then: OpSchema | Tail,
    *,
    doc: str,
    example: str,
    source: str | None = None,
    inputs: Sequence[BlobSpec] | None = None,
    outputs: Sequence[BlobSpec] | None = None,
    args: Iterable[ArgSpec] | None = None,
    in_place: InPlace = None,
    no_gradient: NoGradient | None = None,
) -> OpSchema:
    """Declare the operator that is `base`, and behind it `then`, with its reference kernel.

    Args:
        type: the name in `OperatorDef.type`.
        base: the operator that computes y.
        then: what becomes of y.
        doc: the formula.
        example: as `schema` takes it.
        source: that of the base unless given.
        inputs: those of the base unless given; it may lack optional ones. What ties the numbers of letters holds only
            where inputs and outputs are the base's.
        outputs: those of the base unless given.
        args: those of the base unless given.
        in_place: what the first output may overwrite beside; that of the base unless given.
        no_gradient: why there is none; else it follows from the gradients of the two.

    Raises:
        SchemaError: an operator behind that may not overwrite its one input; operands behind a base without `infer`.
    """
    tail = then if isinstance(then, Tail) else _tail_of(base, then)
    if tail.inputs and base.rules.infer is None:
        raise SchemaError(f"{type}: the shapes of {base.type} follow from patterns alone", hint="give it an infer rule")
    given = base.args if args is None else {spec.name: spec for spec in args}
    relations = base.relations if inputs is None and outputs is None else ()
    inputs = base.inputs if inputs is None else inputs
    made = schema(
        type,
        doc,
        inputs=[*inputs, *tail.inputs],
        outputs=base.outputs if outputs is None else outputs,
        args=[*given.values(), *(spec for spec in tail.args if spec.name not in given)],
        in_place=base.in_place if in_place is None else in_place,
        must_in_place=base.must_in_place,
        no_gradient=_no_gradient(base, then) if no_gradient is None else no_gradient,
        effects=base.effects,
        ineffective=base.ineffective,
        open_args=base.open_args,
        relations=relations,
        source=base.source if source is None else source,
        example=example,
    )
    made.module = sys._getframe(1).f_globals["__name__"]  # pyright: ignore[reportPrivateUsage] -- as `schema` finds it
    made.base = base
    _add_rules(made, base, tail)
    if tail.name_inputs is not None:
        letters, least = [spec.name for spec in inputs], sum(not spec.optional for spec in inputs)
        made.name_inputs(tail.name_inputs(letters, least))
    if made.gradient_rule is None:
        maker = _gradient(base, cast("OpSchema", then))
        made.gradient(maker, copy_arguments=False, copy_device=False, copy_engine=False)
    kernel(made)(_compute(made, base, tail))
    return made


def _of_base(base: OpSchema, values: Values) -> dict[str, Any]:
    """Return the values of the base's letters, None for those that the fused operator has not."""
    return {spec.name: values.get(spec.name) for spec in (*base.inputs, *base.outputs)}


def _add_rules(made: OpSchema, base: OpSchema, tail: Tail) -> None:
    """Add what is inferred and checked."""
    rules, first = base.rules, base.outputs[0].name
    infers, costs = rules.infer, rules.cost
    inputs = [spec.name for spec in base.inputs]

    if infers is not None:

        @made.infer
        def infer(op: OpView, **specs: Any) -> Any:
            found = infers(op, **{letter: specs.get(letter) for letter in inputs})
            all_found = cast("tuple[Any, ...]", found if isinstance(found, tuple) else (found,))
            tail.check(op, all_found[0], specs)
            return all_found

    @made.cost
    def cost(op: OpView, **specs: Any) -> Cost:
        of_base, Y = _of_base(base, specs), cast("TensorSpec", specs[first])
        if costs is None:
            read, written = ([of_base[spec.name] for spec in letters] for letters in (base.inputs, base.outputs))
            alone = streamed(_flat(read), _flat(written), flops=Y.size)
        else:
            alone = costs(op, **of_base)
        operands = _flat([specs[spec.name] for spec in tail.inputs])
        return alone + Cost(tail.flops(op) * Y.size, sum(spec.nbytes for spec in operands))

    checks = [check for check in (rules.validate, tail.validate) if check is not None]
    if checks:

        @made.validate
        def validate(op: OpView) -> None:
            for check in checks:
                check(op)

    letters, when = rules.batched
    if letters:
        made.batched(*letters, *(spec.name for spec in tail.inputs), when=when)


def _flat(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return what there is, that of variadic letters one by one."""
    many = (cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,) for value in values)
    return tuple(one for some in many for one in some if one is not None)


def _reference(schema: OpSchema) -> tuple[Callable[..., None], tuple[str, ...]]:
    """Return the function of a reference kernel, and the names of what it is given."""
    found = KERNELS.get(kernel_key(schema.type, "reference"))
    if found is None or found.function is None:
        raise SchemaError(f"{schema.type} has no reference kernel on arrays, so none follows from it")
    return found.function, tuple(inspect.signature(found.function).parameters)


def _compute(made: OpSchema, base: OpSchema, tail: Tail) -> Callable[..., None]:
    """Return the reference kernel: the base's into an array of its own, then what is behind."""
    function, parameters = _reference(base)
    own = {spec.name for spec in (*made.inputs, *made.outputs)} | {"op", "random", "quantization"}
    asked = [name for name in parameters if name in own]
    quantized = any(spec.quantization != PLAIN for spec in made.outputs)
    also = ("op", *(spec.name for spec in tail.inputs), *(["quantization"] if quantized else []))
    names, first = list(dict.fromkeys((*asked, *also))), base.outputs[0].name

    def compute(given: Values) -> None:
        y = np.empty_like(given[first])
        function(*((dict(given) | {first: y}).get(name) for name in parameters))
        tail.apply(given["op"], y, given, given[first])

    return with_names(names, compute, made.module)


def _tail_of(base: OpSchema, then: OpSchema) -> Tail:
    """Return what an operator does with y; its arguments are the fused operator's, unless the base has them."""
    if len(then.inputs) != 1 or len(then.outputs) != 1 or not then.in_place:
        raise SchemaError(f"{then.type} stands behind nothing: it may not overwrite its one input")
    function, parameters = _reference(then)
    X, Y, y_of_base = then.inputs[0].name, then.outputs[0].name, base.outputs[0].name

    def flops(op: OpView) -> int:
        one = TensorSpec((1,), DataType.FLOAT)
        costs = then.rules.cost
        return 1 if costs is None else costs(op, **{X: one, Y: one}).flops

    def apply(op: OpView, y: Array, values: Values, out: Array) -> None:
        meaning = values["quantization"][y_of_base] if "quantization" in values else None
        known = {"op": op, X: y, Y: out, "quantization": {X: meaning, Y: meaning}}
        function(*(known[name] for name in parameters))

    return Tail(flops, apply, args=tuple(then.args.values()))


def _no_gradient(base: OpSchema, then: OpSchema | Tail) -> NoGradient | None:
    """Return why one of the two has no gradient, None where both have."""
    if isinstance(then, Tail):
        raise SchemaError(f"what stands behind {base.type} has no gradient", hint="say why: no_gradient=")
    rules = (then.gradient_rule, base.gradient_rule)
    return next((rule for rule in rules if isinstance(rule, NoGradient)), None)


def _gradient(base: OpSchema, then: OpSchema) -> GradientMaker:
    """Return what emits the gradient of `then`, then that of `base`."""

    def gradient(g: GradientRequest) -> list[OperatorDef]:
        between = f"{g.O(0)}_unfused"
        front, behind = OperatorDef(), OperatorDef()
        front.CopyFrom(g.definition)
        front.type, front.output[0] = base.type, between
        behind.CopyFrom(g.definition)
        behind.type, behind.input[:], behind.output[:] = then.type, [between], [g.O(0)]
        steps, (dy,) = gradient_for_op(then.typed_view(behind), g.output_gradients[:1])
        more, request = answered_request(base.typed_view(front), [dy, *g.output_gradients[1:]], g.name_of)
        if any(between in step.input for step in (*steps, *more)):
            raise GradientError(
                f"the gradient of {g.op.type} reads what is between {base.type} and {then.type}, which is not kept",
                hint="train the net with the two operators, and fuse them behind",
            )
        g.input_gradients[:] = request.input_gradients
        return [*steps, *more]

    return gradient
