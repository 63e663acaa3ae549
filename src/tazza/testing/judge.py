"""What must hold of any operator, on any engine, for a case of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tazza.errors import CheckError
from tazza.operator import Operator, OpView, find_schema, may_overwrite, must_overwrite
from tazza.operator.gradient import GradientRule, is_told
from tazza.operator.images import batched_letters
from tazza.proto import OperatorDef
from tazza.tensor import DataType, Int8Tensor, Place, Tensor, TensorSpec
from tazza.testing.case import Case, engines_of
from tazza.testing.gradient import check_gradient
from tazza.testing.law import law
from tazza.testing.running import Settle, engine_that_ran, refusal, run
from tazza.testing.value import Array, assert_close, changed, data_of, hold, spec_of

HELD = 77
"""What outputs hold before a run."""


def check_op(
    case: Case, engine: str | None = None, place: Place | None = None, *, settle: Settle | None = None
) -> list[str]:
    """Run a case on an engine, or on all that have a kernel, and require all that holds for any operator.

    That is: the schema takes it; shapes and types of the results are those that are inferred; the results are right,
    also for inputs that lie otherwise in memory, for outputs that held something else, in place, of an empty batch, of
    each image alone; inputs are left as they are; the gradient is that of the reference kernel, by operators that have
    the defaults of this one; an operator without a gradient says why in its `no_gradient`.

    Args:
        case: what is run, and what must come out.
        engine: must run, not refuse; None: every engine that has a kernel, of which others than `reference` may refuse.
        place: where it runs, if that is not the case's own.
        settle: judges, for each run, whether the engine that was asked for may refuse; instead of these rules.

    Returns:
        The engines that ran.

    Raises:
        CheckError: something does not hold; it names operator, case, engine, law and letter, then shows the numbers.
        TazzaError: the operator refuses the case; there is no operator of that type, or no kernel of it.
    """
    find_schema(case.type)
    case = case if place is None else replace(case, place=place)
    if engine is not None:
        return [engine] if _checked(case, engine, engine if settle is None else None, settle) else []
    engines = engines_of(case.type, case.place)
    if not engines:
        raise CheckError(
            f"no engine that is available has a kernel of {case.type}",
            hint=f"write one under @kernel, with the schema of {case.type}, and import its module",
        )
    needed = "reference" if settle is None else None
    return [one for one in engines if _checked(case, one, needed, settle)]


def _checked(case: Case, engine: str, needed: str | None, settle: Settle | None) -> bool:
    """Whether the engine ran; one that refuses gives its reason, and must not where it is needed."""
    definition = case.definition(engine)
    inputs = case.arrays()
    with law(case, engine, "it runs, or says why not"):
        results, operator = run(definition, inputs, engine, settle=settle)
        ran = engine_that_ran(operator)
    if engine != ran:
        if engine == needed:
            raise CheckError(f"{engine} refuses {case.type} {case.id}: {refusal(operator, engine)}")
        return False
    with law(case, engine, "shapes and types of the outputs are those that are inferred"):
        _check_specs(operator, inputs, results)
    _check_expected(case, engine, operator.op, results)
    for letter, before, after in zip(operator.op.input_letters, case.arrays(), inputs, strict=True):
        with law(case, engine, f"input {letter} is left as it is"):
            np.testing.assert_array_equal(data_of(after), data_of(before))
    again = OperatorDef.FromString(definition.SerializeToString())
    hold(again == definition, f"the definition of {case.type} comes back from its bytes as {again}")
    _check_strided(case, engine, results, settle)
    _check_in_place(case, engine, results, settle)
    _check_empty(case, engine, settle)
    _check_batched(case, engine, results)
    with law(case, engine, "an operator has a gradient, or says why not"):
        hold(
            not case.gradient or operator.schema.gradient_rule is not None or is_told(case.type),
            f"{case.type} has neither @gradient nor no_gradient; ends(reason), forbidden(reason) or "
            "not_written(reason) say that it has none",
        )
    if case.gradient and isinstance(operator.schema.gradient_rule, GradientRule):
        check_gradient(case, engine, settle=settle)
    return True


def _check_expected(case: Case, engine: str, op: OpView, results: Sequence[Array]) -> None:
    """The results must be what the case says, by its formula or its numbers."""
    given: Any = case.expected(*case.arrays()) if callable(case.expected) else case.expected
    expected = cast(
        "Sequence[Any]", given if isinstance(given, (tuple, list)) and not isinstance(given, Int8Tensor) else (given,)
    )
    with law(case, engine, "`expected` has every output"):
        hold(len(expected) == len(results), f"{case.type} has {len(results)} outputs, expected are {len(expected)}")
    try:
        _agree(case, engine, op, results, expected, "{} agrees with `expected`")
    except CheckError:
        if all(data_of(one).dtype.kind in "fiu" for one in results) and case.place.is_host:
            _tell_accumulation(case, engine, results, expected)
        raise


def _tell_accumulation(case: Case, engine: str, results: Sequence[Array], expected: Sequence[Any]) -> None:
    """Say of results that are wrong that they are so by what lay in the outputs, where they are right over zeros."""
    zeros = [Tensor.from_numpy(np.zeros_like(data_of(one))) for one in results]
    clean, operator = run(case.definition(engine), case.arrays(), engine, held=zeros)
    try:
        for one, other in zip(clean, expected, strict=True):
            assert_close(one, other, case.slack)
    except AssertionError:
        return
    _agree(case, engine, operator.op, results, clean, "{} is the same whatever the outputs held before the run")


def _agree(case: Case, engine: str, op: OpView, got: Sequence[Array], wanted: Sequence[Any], what: str) -> None:
    """Each output must be as wanted; `what` is the law, with {} for its letter."""
    for letter, one, other in zip(op.output_letters, got, wanted, strict=True):
        with law(case, engine, what.format(f"output {letter}")):
            assert_close(one, other, case.slack)


def _every_second(array: Array) -> Tensor | Array:
    """Return a tensor with the elements of `array`, of which each has an unused neighbour in memory, a wrong one."""
    if array.ndim == 0 or array.size == 0 or array.dtype == object:
        return array
    wide = np.repeat(array, 2, axis=-1)
    wide[..., 1::2] = np.nan if DataType.of(array).is_float else ~array
    steps = [step // array.itemsize * 2 for step in np.ascontiguousarray(array).strides]
    return Tensor.from_numpy(wide).view(array.shape, strides=steps)


def _check_specs(operator: Operator, inputs: Sequence[Array], results: Sequence[Array]) -> None:
    letters = operator.op.input_letters
    given = [spec_of(x) for x in inputs]
    inferred = operator.schema.infer_specs(operator.op, given, lambda letter: inputs[letters.index(letter)])
    for spec, result, declared in zip(inferred.specs, results, operator.op.output_letters, strict=True):
        hold(isinstance(spec, TensorSpec), f"{declared} of {operator.op.type} is inferred to be {spec}, not a tensor")
        if not operator.schema.outputs_by_letter[declared].dynamic:
            real = spec_of(result)
            hold(spec == real, f"{declared} of {operator.op.type} is inferred to be {spec}, it is {real}")


def _larger(results: Sequence[Array]) -> list[Tensor]:
    """Return for each result a tensor of its type with one more row in each axis, full of wrong numbers."""
    arrays = [data_of(one) for one in results]
    wrong = [b"wrong" if one.dtype == object else HELD for one in arrays]
    grown = [np.full([n + 1 for n in x.shape], value, x.dtype) for x, value in zip(arrays, wrong, strict=True)]
    return [Tensor.from_numpy(one) for one in grown]


def _check_strided(case: Case, engine: str, results: Sequence[Array], settle: Settle | None) -> None:
    """Inputs whose memory is not row-major must give the same, in outputs that held something larger, too."""
    strided = [changed(x, cast("Any", _every_second)) for x in case.arrays()]
    held = _larger(results) if case.place.is_host else []
    definition = case.definition(engine)
    op = find_schema(case.type).view(definition)
    try:
        with law(case, engine, "it runs with inputs that are not contiguous"):
            again, _ = run(definition, strided, engine, held=held, settle=settle)
        _agree(case, engine, op, again, results, "{} is the same for inputs that are not contiguous")
    except CheckError:  # which of both is it? What fails with contiguous inputs too is told of the outputs
        again, _ = run(definition, case.arrays(), engine, held=held, settle=settle)
        _agree(case, engine, op, again, results, "{} is the same whatever the outputs held before the run")
        raise


def _check_in_place(case: Case, engine: str, results: Sequence[Array], settle: Settle | None) -> None:
    """Each allowed in-place pair must give what the operator gives out of place."""
    schema, definition = find_schema(case.type), case.definition(engine)
    op = schema.view(definition)
    for target in range(len(op.output_letters)):
        for source in () if must_overwrite(op, target) else may_overwrite(op, target):
            before, after = data_of(case.arrays()[source]), data_of(results[target])
            if (before.shape, before.dtype) != (after.shape, after.dtype):
                continue
            aliased = OperatorDef.FromString(definition.SerializeToString())
            aliased.output[target] = aliased.input[source]
            where = f"in place, with output {op.output_letters[target]} over input {op.input_letters[source]}"
            with law(case, engine, f"it runs {where}"):
                again, _ = run(aliased, case.arrays(), engine, settle=settle)
            _agree(case, engine, op, again, results, f"{{}} {where}, is that out of place")


def _check_batched(case: Case, engine: str, results: Sequence[Array]) -> None:
    """Where images go their own ways by the schema, each image alone must give its part of the results."""
    definition = case.definition()
    op = find_schema(case.type).view(definition)
    specs = [[spec_of(x) for x in arrays] for arrays in (case.arrays(), results)]
    letters = batched_letters(op.schema, op, (specs[0], specs[1]))
    count = data_of(results[0]).shape[:1]
    if not letters or not count:
        return
    for n in range(count[0]):

        def one(x: Any, n: int = n) -> Any:
            return changed(x, lambda data: data[n : n + 1])

        pairs = zip(op.input_letters, case.arrays(), strict=True)
        alone, _ = run(definition, [one(x) if letter in letters else x for letter, x in pairs])
        for letter, got, wanted in zip(op.output_letters, alone, results, strict=True):
            if data_of(wanted).shape[:1] == count and data_of(got).shape[0] == 1:
                with law(case, engine, f"output {letter} of image {n} alone is its part of that of all"):
                    assert_close(got, one(wanted), case.slack)


def _check_empty(case: Case, engine: str, settle: Settle | None) -> None:
    """A batch of 0 must run and give the shapes that inference says."""
    if not case.batched:
        return
    cut = [changed(x, lambda data: data[:0]) if i in case.batched else x for i, x in enumerate(case.arrays())]
    inputs = cast("list[Array]", cut)
    with law(case, engine, "an empty batch runs, and gives the shapes and types that are inferred"):
        results, operator = run(case.definition(engine), inputs, engine, settle=settle)
        _check_specs(operator, inputs, results)
