"""What must hold of any operator, on any engine, for a case of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from tazza.errors import CheckError
from tazza.operator import Operator, find_schema, may_overwrite, must_overwrite
from tazza.operator.gradient import GradientRule
from tazza.operator.images import batched_letters
from tazza.proto import OperatorDef
from tazza.tensor import Int8Tensor, Place, Tensor, TensorSpec
from tazza.testing.case import Case, engines_of
from tazza.testing.gradient import check_gradient
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
    each image alone; inputs are left as they are; the gradient is that of the reference kernel.

    Args:
        case: what is run, and what must come out.
        engine: must run, not refuse; None: every engine that has a kernel, of which others than `reference` may refuse.
        place: where it runs, if that is not the case's own.
        settle: judges, for each run, whether the engine that was asked for may refuse; instead of these rules.

    Returns:
        The engines that ran.

    Raises:
        AssertionError: something does not hold; a `CheckError`, or that of NumPy, which shows the numbers.
        TazzaError: the operator refuses the case.
    """
    case = case if place is None else replace(case, place=place)
    if engine is not None:
        return [engine] if _checked(case, engine, engine if settle is None else None, settle) else []
    engines = engines_of(case.type, case.place)
    hold(engines, f"no engine that is available has a kernel of {case.type}")
    needed = "reference" if settle is None else None
    return [one for one in engines if _checked(case, one, needed, settle)]


def _checked(case: Case, engine: str, needed: str | None, settle: Settle | None) -> bool:
    """Whether the engine ran; one that refuses gives its reason, and must not where it is needed."""
    definition = case.definition(engine)
    inputs = case.arrays()
    results, operator = run(definition, inputs, engine, settle=settle)
    if engine != engine_that_ran(operator):
        if engine == needed:
            raise CheckError(f"{engine} refuses {case.type} {case.id}: {refusal(operator, engine)}")
        return False
    _check_specs(operator, inputs, results)
    given: Any = case.expected(*inputs) if callable(case.expected) else case.expected
    expected = cast(
        "Sequence[Any]", given if isinstance(given, (tuple, list)) and not isinstance(given, Int8Tensor) else (given,)
    )
    hold(len(expected) == len(results), f"{case.type} has {len(results)} outputs, expected are {len(expected)}")
    for got, wanted in zip(results, expected, strict=True):
        assert_close(got, wanted, case.slack)
    for before, after in zip(case.arrays(), inputs, strict=True):
        np.testing.assert_array_equal(data_of(before), data_of(after), err_msg="an input was changed")
    again = OperatorDef.FromString(definition.SerializeToString())
    hold(again == definition, f"the definition comes back as {again}")
    _check_strided(case, engine, results, settle)
    _check_in_place(case, engine, results, settle)
    _check_empty(case, engine, settle)
    _check_batched(case, results)
    if case.gradient and isinstance(operator.schema.gradient_rule, GradientRule):
        check_gradient(case, engine, settle=settle)
    return True


def _every_second(array: Array) -> Tensor | Array:
    """Return a tensor with the elements of `array`, of which each has an unused neighbour in memory, a wrong one."""
    if array.ndim == 0 or array.size == 0 or array.dtype == object:
        return array
    wide = np.repeat(array, 2, axis=-1)
    wide[..., 1::2] = np.nan if array.dtype.kind == "f" else ~array
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
    again, _ = run(case.definition(engine), strided, engine, held=held, settle=settle)
    for got, wanted in zip(again, results, strict=True):
        assert_close(got, wanted, case.slack)


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
            again, _ = run(aliased, case.arrays(), engine, settle=settle)
            for got, wanted in zip(again, results, strict=True):
                assert_close(got, wanted, case.slack)


def _check_batched(case: Case, results: Sequence[Array]) -> None:
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
        for got, wanted in zip(alone, results, strict=True):
            if data_of(wanted).shape[:1] == count and data_of(got).shape[0] == 1:
                assert_close(got, one(wanted), case.slack)


def _check_empty(case: Case, engine: str, settle: Settle | None) -> None:
    """A batch of 0 must run and give the shapes that inference says."""
    if not case.batched:
        return
    cut = [changed(x, lambda data: data[:0]) if i in case.batched else x for i, x in enumerate(case.arrays())]
    inputs = cast("list[Array]", cut)
    results, operator = run(case.definition(engine), inputs, engine, settle=settle)
    _check_specs(operator, inputs, results)
