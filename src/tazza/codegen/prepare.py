"""Kernels as functions of letters: what each that is compiled would else say of its operands again.

A function names the letters that it looks at, and gets their specs: `softmax(op, X)`. What is the same for all stands
here: text is not compiled, and what computes in float32 alone refuses other floats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any

from tazza.codegen.block import accepts_rows
from tazza.device import Context
from tazza.errors import SchemaError
from tazza.operator import OpSchema, OpView, Role, Spec, Unsupported, launcher
from tazza.operator.kernel import Offered, Prepare, parameters_of
from tazza.operator.letter import BlobSpec
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.place import CPU_KIND


def compiles(
    *schemas: OpSchema,
    engine: str,
    device: str = CPU_KIND,
    accepts: Callable[[str, Spec], bool] = accepts_rows,
    batch_invariant: bool = False,
    float32: bool | Collection[str] = False,
) -> Callable[[Callable[..., Offered]], Prepare]:
    """Register a function of letters as the kernel of schemas.

    Its parameters are letters of inputs and outputs, whose specs it gets: a list of them where a letter is variadic,
    None where an optional blob is absent; and `op`, `context`, or `specs`, all of them by letter.

    Args:
        schemas: those of the operators, which may lack letters that others have.
        engine: of the kernel.
        device: kind of device.
        accepts: as for `launcher`.
        batch_invariant: as for `launcher`.
        float32: refuse other types of elements where a schema lets float32 be one of several, or for these letters.

    Raises:
        SchemaError: a parameter is a letter of none of the schemas.
    """

    def decorate(decorated: Callable[..., Offered]) -> Prepare:
        # Schemas that accept unlike layouts are named one above the other.
        function: Callable[..., Offered] = getattr(decorated, "__wrapped__", decorated)
        names = parameters_of(function)
        letters = {letter for one in schemas for letter in (*one.inputs_by_letter, *one.outputs_by_letter)}
        strange = sorted({*names} - letters - {"op", "context", "specs"})
        if strange:
            raise SchemaError(f"{function.__name__}: {', '.join(strange)} is no letter of what it computes")

        @wraps(function)
        def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
            given = named(op, inputs, outputs)
            _check_types(op, given, float32=float32)
            found = {"op": op, "context": context, "specs": given, **given}
            return function(**{name: found.get(name) for name in names})

        for one in schemas:
            launcher(one, engine=engine, device=device, accepts=accepts, batch_invariant=batch_invariant)(prepare)
        return prepare

    return decorate


def named(op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> dict[str, Any]:
    """Return specs by letter, a list of them where the letter is variadic."""
    found: dict[str, Any] = {}
    for declared, letters, specs in (
        (op.schema.inputs_by_letter, op.input_letters, inputs),
        (op.schema.outputs_by_letter, op.output_letters, outputs),
    ):
        for letter, spec in zip(letters, specs, strict=True):
            if declared[letter].variadic:
                found.setdefault(letter, []).append(spec)
            else:
                found[letter] = spec
    return found


def flat(specs: Mapping[str, Spec | list[Spec]]) -> list[Spec]:
    """Return specs by letter one by one, those of variadic letters too."""
    return [one for found in specs.values() for one in (found if isinstance(found, list) else [found])]


def _check_types(op: OpView, given: Mapping[str, Any], *, float32: bool | Collection[str]) -> None:
    """Refuse types of elements that are not compiled."""
    declared = {**op.schema.inputs_by_letter, **op.schema.outputs_by_letter}
    for letter, found in given.items():
        for spec in found if declared[letter].variadic else (found,):
            if not isinstance(spec, TensorSpec) or spec.dtype is DataType.FLOAT:
                continue
            if spec.dtype is DataType.STRING:
                raise Unsupported("text is not compiled")
            if declared[letter].role is Role.INDEX:  # labels may be declared as anything
                continue
            if letter in float32 if isinstance(float32, Collection) else float32 and _lets_float32(declared, letter):
                raise Unsupported(f"it computes in float32, not {letter} of {spec}")


def _lets_float32(declared: Mapping[str, BlobSpec], letter: str) -> bool:
    """Return whether a letter may have elements of float32; its types may be those of another one."""
    own = declared[letter]
    other = own.dtypes if isinstance(own.dtypes, str) else own.like
    if other is not None:
        return _lets_float32(declared, other)
    return own.dtypes is None or (isinstance(own.dtypes, frozenset) and DataType.FLOAT in own.dtypes)
