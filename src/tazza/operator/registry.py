"""The registry of schemas, and the functions by which families declare them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence

from tazza.errors import DuplicateError, SchemaError, UnknownOperatorError
from tazza.operator.argument import ArgSpec
from tazza.operator.arity import Relation
from tazza.operator.declaring import declared_at, declaring
from tazza.operator.gradient import NoGradient
from tazza.operator.in_place import InPlace
from tazza.operator.index import index, load_operator
from tazza.operator.letter import BlobSpec
from tazza.operator.schema import EffectsRule, OpSchema
from tazza.proto import OperatorDef
from tazza.registry import Registry

SCHEMAS: Registry[str, OpSchema] = Registry(
    "operator", loader=load_operator, listed=lambda: frozenset(index()["operators"])
)


def schema(
    type: str,
    doc: str,
    *,
    inputs: Sequence[BlobSpec] = (),
    outputs: Sequence[BlobSpec] = (),
    args: Iterable[ArgSpec] = (),
    in_place: InPlace = None,
    must_in_place: InPlace = None,
    no_gradient: NoGradient | None = None,
    relations: Iterable[Relation] = (),
    ineffective: Callable[[OperatorDef], list[str]] | None = None,
    open_args: Callable[[str], bool] | None = None,
    effects: EffectsRule | None = None,
    private: bool = False,
    inputs_can_cross_devices: bool = False,
    binds_nets: bool = False,
    lists_anything: bool = False,
    source: str = "",
    example: str = "",
    priority: int = 0,
) -> OpSchema:
    """Declare and register an operator type.

    Args:
        type: the name in `OperatorDef.type`.
        doc: the formula, then what the declarations below cannot say.
        inputs: letters in order, see `blob`.
        outputs: letters in order.
        args: arguments, see `arg`.
        in_place: output letter -> what it may overwrite: an input letter (of a variadic one its first blob), `each` of
            a letter, `anything()`, or several of these; `anything()` alone says it of all outputs.
        must_in_place: output letter -> what it must overwrite, where that input is given; in the same forms.
        no_gradient: `ends(reason)`, `forbidden(reason)` or `not_written(reason)`, for operators without a gradient
            maker.
        relations: what ties the numbers of blobs of several letters: `as_many`, `pairs`, `together`.
        ineffective: names declared arguments that have no effect in an OperatorDef, to be treated like unknown ones.
        open_args: says whether a name that is not declared is an argument all the same, which kernels read themselves.
        effects: what a run does beside computing its outputs, or a function of the operator's view that tells; without
            it an operator counts as one that does everything: passes leave it alone, nets of strangers do not run it.
        private: for other operators alone, which make it: not offered by builders and documentation.
        inputs_can_cross_devices: inputs may lie on another device than the operator's, as those of copies do.
        binds_nets: nets among the arguments have names of their own, that arguments bind to those of the workspace.
        lists_anything: whatever nets within touch may be named among the inputs and outputs, in any order and number.
        source: paper and section, or "Caffe2"; of operators that Caffe2 does not have it begins with "tazza".
        example: lines `>>> run("Type", inputs ..., arguments ...)` with their output; run by a test.
        priority: a third party may replace a declaration by a higher one.

    Raises:
        SchemaError: something names a letter that is none of the schema's, or that cannot be what is said of it.
    """
    module = sys._getframe(1).f_globals["__name__"]  # pyright: ignore[reportPrivateUsage] -- the index needs the family file
    with declaring():
        made = OpSchema(
            type,
            inspect.cleandoc(doc),
            inputs=inputs,
            outputs=outputs,
            args=args,
            in_place=in_place,
            must_in_place=must_in_place,
            no_gradient=no_gradient,
            relations=relations,
            ineffective=ineffective,
            open_args=open_args,
            effects=effects,
            private=private,
            inputs_can_cross_devices=inputs_can_cross_devices,
            binds_nets=binds_nets,
            lists_anything=lists_anything,
            source=source,
            example=inspect.cleandoc(example),
            module=module,
        )
        made.declared_at = declared_at()
        _check_type(type, priority)
        SCHEMAS.register(type, made, help=made.doc.splitlines()[0] if made.doc else "", priority=priority)
    return made


def _check_type(type: str, priority: int) -> None:
    """Check that an operator type is a name that nobody has taken, with this priority.

    Raises:
        SchemaError: it is empty, or has blanks in it.
        DuplicateError: somebody has.
    """
    if not type or any(letter.isspace() for letter in type):
        raise SchemaError(f"{type!r} is no operator type", hint="a name without blanks, such as LeakyRelu")
    old = SCHEMAS.entry(type)
    if old is not None and old.priority == priority:
        raise DuplicateError(
            f"operator {type!r} is declared already, in {old.value.declared_at}",
            hint="take another name; a declaration of higher priority replaces it",
        )


def find_schema(type: str) -> OpSchema:
    """Return the schema of an operator type.

    Raises:
        UnknownOperatorError: nobody declares it; the hint proposes near names.
    """
    found = SCHEMAS.get(type)
    if found is None:
        raise UnknownOperatorError(f"unknown operator {type!r}", hint=SCHEMAS.near(type, but=_is_private))
    return found


def _is_private(type: str) -> bool:
    found = SCHEMAS.get(type)
    return found is not None and found.private
