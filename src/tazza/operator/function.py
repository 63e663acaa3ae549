"""Tensor functions as operators of nets: one line, and the signature says the rest.

    @operator_of("RowScale")
    def row_scale(X: Tensor, scale: float = 2.0) -> Tensor:
        ...

    register_function(ta.vecdot, "Vecdot")        # any function of the library, or of yours

What is read from the signature:

- Positional parameters that take tensors (`Tensor`, or arrays, or a union with one of them) are inputs, their names
  the letters. With the default None one is optional; `*X` or a sequence of tensors is variadic. A function that takes
  arrays only gets arrays.
- Other parameters are arguments, by name, with their defaults: numbers, bool, text, lists or tuples of these,
  `Literal` texts, and `DataType` (stored as its label). One of another type keeps its default, and has to have one.
- A keyword `out` is used: the function then writes into the blob itself.
- The result is one output `Y`; a tuple gives `Y0`, `Y1` ..., a NamedTuple its fields, `list[Tensor]` a variadic `Y`.
- `Annotated[Tensor, "N C"]` gives a shape pattern (operator.pattern), `Annotated[Tensor, DataType.INT64]` an element
  type or a set of them. Where all outputs have a pattern, these are the shape rule; their element type, where none is
  given, is that of the first input. `infer=` is a rule that is written: `infer=lambda op, X: X` for Y like X.
- Without a rule sizes and element types of the outputs are known after a run, as if they depended on values: nets
  infer nothing behind the operator, and plans run it by itself.

Annotations are evaluated, so that what they name must exist at run time, not under `if TYPE_CHECKING`.

A gradient function is a tensor function too: its parameters name inputs (`X`), outputs (`Y`) and gradients of outputs
(`dY`) of the first, and it returns the gradients of its first inputs, in order. It becomes the operator
`<type>Gradient`. A net that is loaded needs the module that registers its functions, as with any operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from tazza.errors import SchemaError
from tazza.operator.effect import Effects
from tazza.operator.function_kernel import function_prepare
from tazza.operator.function_signature import FunctionSignature, Output, read_signature
from tazza.operator.gradient import GradientRequest, NoGradient, not_written
from tazza.operator.index import ANY
from tazza.operator.kernel import KERNELS, Kernel, kernel_key
from tazza.operator.letter import BlobSpec, blob
from tazza.operator.registry import SCHEMAS, schema
from tazza.operator.schema import OpSchema
from tazza.proto import OperatorDef

F = TypeVar("F", bound=Callable[..., Any])
GRADIENT = "Gradient"


def operator_of(
    type: str,
    *,
    gradient: Callable[..., Any] | NoGradient | None = None,
    infer: Callable[..., Any] | None = None,
    outputs: Sequence[str] | None = None,
    effects: Effects | None = None,
    priority: int = 0,
) -> Callable[[F], F]:
    """Return a decorator that registers a tensor function as operator `type`; see `register_function`."""

    def decorate(function: F) -> F:
        register_function(
            function,
            type,
            gradient=gradient,
            infer=infer,
            outputs=outputs,
            effects=effects,
            priority=priority,
        )
        return function

    return decorate


def register_function(
    function: Callable[..., Any],
    type: str,
    *,
    gradient: Callable[..., Any] | NoGradient | None = None,
    infer: Callable[..., Any] | None = None,
    outputs: Sequence[str] | None = None,
    effects: Effects | None = None,
    priority: int = 0,
) -> OpSchema:
    """Register a tensor function as an operator, and return the schema that follows from its signature.

    Args:
        function: a pure function of tensors and arguments.
        type: the operator type.
        gradient: its gradient function, or a reason such as `ends(...)`; by default it has none.
        infer: the shape rule, as in `OpSchema.infer`; else it is made of patterns, if all outputs have one.
        outputs: names of the outputs, instead of `Y` or `Y0`, `Y1` ...
        effects: what the function does beside computing, and its gradient function too: `Effects.PURE` lets passes
            fold and remove it, and nets of strangers call it. Without it neither is done.
        priority: replaces what was registered with a lower one.

    Raises:
        SchemaError: the signature says too little, or names what an operator cannot have.
        DuplicateError: there is such an operator already.

    >>> import numpy as np; from tazza.operator import run_op; from tazza.array.linear_algebra import vecdot
    >>> register_function(vecdot, "DocVecdot")
    OpSchema(DocVecdot: x1, x2 -> Y)
    >>> run_op("DocVecdot", np.ones((2, 3)), np.ones(3), axis=-1)
    array([3., 3.])
    >>> forget_function("DocVecdot")
    """
    signature = read_signature(function, type, outputs)
    backward = None if gradient is None or isinstance(gradient, NoGradient) else read_signature(gradient, type, None)
    if backward is not None:
        backward = _as_gradient(type, signature, backward)
    none = gradient if isinstance(gradient, NoGradient) else not_written("the function was registered without one")
    register = partial(_register, effects=effects, priority=priority)
    made = register(type, signature, infer, None if backward is not None else none)
    if backward is not None:
        register(type + GRADIENT, backward, None, not_written("it is a gradient itself"))
        made.gradient(_gradient_maker(type, signature, backward), copy_arguments=False)
    return made


def forget_function(type: str) -> None:
    """Take back what `register_function` registered under `type`, its gradient too; for tests and notebooks."""
    for one in (type, type + GRADIENT):
        SCHEMAS.unregister(one)
        KERNELS.unregister(kernel_key(one, "reference"))
        KERNELS.unregister(kernel_key(one, "reference", ANY))


def _register(
    type: str,
    signature: FunctionSignature,
    infer: Callable[..., Any] | None,
    no_gradient: NoGradient | None,
    *,
    effects: Effects | None,
    priority: int,
) -> OpSchema:
    inputs = [
        blob(one.name, one.dtypes, one.dims, optional=one.optional, variadic=one.variadic) for one in signature.inputs
    ]
    first = signature.inputs[0].name if signature.inputs else None
    ruled = infer is not None or all(one.dims is not None or one.like is not None for one in signature.outputs)
    made = schema(
        type,
        signature.doc,
        inputs=inputs,
        outputs=[_output(one, first, ruled=ruled) for one in signature.outputs],
        args=[one.spec for one in signature.arguments],
        no_gradient=no_gradient,
        effects=effects,
        source=f"tazza: the function {signature.where}",
        priority=priority,
    )
    if infer is not None:
        made.infer(infer)
    key = kernel_key(type, "reference")
    kernel = Kernel(*key, prepare=function_prepare(signature), module=signature.function.__module__)
    KERNELS.register(key, kernel, help=signature.where, priority=priority)
    return made


def _output(one: Output, first: str | None, *, ruled: bool) -> BlobSpec:
    several = partial(blob, one.name, variadic=one.variadic, optional=one.variadic)
    if one.like is not None:
        return several(like=one.like)
    if not ruled:
        return several(one.dtypes, dynamic=True)
    return several(one.dtypes if one.dtypes is not None else first, one.dims)


def _as_gradient(type: str, forward: FunctionSignature, backward: FunctionSignature) -> FunctionSignature:
    """Name the results of a gradient function after the inputs, and check what it asks for.

    Raises:
        SchemaError: it has more results than the function has inputs, or a parameter that names none of its blobs.
    """
    letters = [one.name for one in (*forward.inputs, *forward.outputs)]
    known = [*letters, *(f"d{one.name}" for one in forward.outputs)]
    strange = [one.name for one in backward.inputs if one.name not in known]
    if strange:
        raise SchemaError(
            f"{type}: the gradient function {backward.where} has the parameter {', '.join(strange)}",
            hint=f"it may ask for {', '.join(known)}",
        )
    if len(backward.outputs) > len(forward.inputs):
        raise SchemaError(
            f"{type}: the gradient function returns {len(backward.outputs)} tensors for {len(forward.inputs)} inputs"
        )
    asked = [one.name for one in backward.inputs]
    pairs = zip(backward.outputs, forward.inputs, strict=False)
    renamed = [
        Output(f"d{x.name}", y.dtypes, y.dims, y.variadic, like=x.name if x.name in asked else None) for y, x in pairs
    ]
    return backward.with_outputs(renamed)


def _gradient_maker(
    type: str, forward: FunctionSignature, backward: FunctionSignature
) -> Callable[[GradientRequest], list[OperatorDef]]:
    """Return what emits the operator of the gradient function, with those arguments that it takes."""
    taken = {one.spec.name for one in backward.arguments}
    results = {one.name.removeprefix("d") for one in backward.outputs}

    def make(g: GradientRequest) -> list[OperatorDef]:
        op = g.op
        names: list[str] = []
        for one in backward.inputs:
            names += [g.I(i) for i, letter in enumerate(op.input_letters) if letter == one.name]
            names += [g.O(i) for i, letter in enumerate(op.output_letters) if letter == one.name]
            names += [g.GO(i) for i, letter in enumerate(op.output_letters) if f"d{letter}" == one.name]
        wanted = [g.GI(i) for i, letter in enumerate(op.input_letters) if letter in results]
        definitions = g.emit(type + GRADIENT, names, wanted)
        definitions[0].arg.extend(argument for argument in g.definition.arg if argument.name in taken)
        return definitions

    return make
