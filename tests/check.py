"""The harness of operator tests: a `Case` is data, `check_op` asserts all that holds for any operator on an engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import device_option, place_of
from tazza.nets.plan.slicing import batched_letters
from tazza.operator import (
    ENGINES,
    DynamicOutput,
    LocalBlobs,
    Operator,
    OpView,
    RowSlices,
    find_schema,
    gradient_for_op,
    may_overwrite,
    must_overwrite,
    operator_def,
    why_unavailable,
)
from tazza.operator.choice import find_kernel
from tazza.operator.gradient import GradientRule
from tazza.operator.schema import gather
from tazza.proto import OperatorDef
from tazza.tensor import CPUPlace, DataType, Int8Tensor, Place, Tensor, TensorSpec
from tazza.tensor.transfer import to_place
from tests.declared import LEDGER
from tests.int8 import assert_near, changed, data_of, fresh, spec_of, tensor_of
from tests.sampled import is_fast

Array = NDArray[Any]

TOLERANCE = {"float16": (2e-3, 1e-3), "float32": (1e-5, 1e-6), "float64": (1e-12, 1e-12)}
"""dtype -> (relative, absolute) for short sums; a case with longer reductions multiplies both by its `slack`."""

STEP = 1e-6
"""How far the central difference goes to each side, in float64."""

HELD = 77
"""What outputs hold before a run."""

DIRECTIONS = 3
"""How many directions are tried for a gradient until one meets no kink."""


@dataclass(frozen=True)
class Case:
    """One call of an operator and what must come out.

    `expected` is the outputs, or a function of the inputs that gives them by another formula than the kernel's.
    `batched` lists the inputs whose first axis may be cut to length 0. `gradient` False switches the gradient check
    off, with the reason in the test. Which engines refuse it is declared in `data/engines.json`, see `declared.py`.
    """

    type: str
    inputs: Sequence[Any]
    expected: Any
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    outputs: int | None = None
    batched: tuple[int, ...] = ()
    gradient: bool = True
    slack: float = 1.0
    id: str = ""
    place: Place = CPUPlace()  # noqa: RUF009 - one immutable object per place

    def arrays(self) -> list[Array]:
        """Return fresh copies of the inputs."""
        return [cast("Array", fresh(value)) for value in self.inputs]

    def definition(self, engine: str = "") -> OperatorDef:
        """Return the OperatorDef with inputs in0, in1 ... and outputs out0 ..."""
        declared = find_schema(self.type)
        count = sum(not spec.optional for spec in declared.outputs) if self.outputs is None else self.outputs
        names = [f"in{i}" for i in range(len(self.inputs))], [f"out{i}" for i in range(count)]
        device = None if self.place.is_host else device_option(self.place)
        return operator_def(self.type, *names, engine=engine, device=device, **self.args)


class CaseOfBlobs(Protocol):
    """A case of another kind than arrays, over a workspace: a `Sequence` or a `Nested`."""

    def check(self, place: Place | None = None) -> None:
        """Assert everything that must hold."""
        ...


def engines_of(type: str, place: Place | None = None) -> list[str]:
    """Return the engines that have a kernel of this type for a place, by default the host, and are available."""
    kind = (CPUPlace() if place is None else place).kind
    return [name for name in ENGINES if why_unavailable(type, kind, name) is None]


def on_all_engines(cases: Iterable[Case]) -> Callable[[Any], Any]:
    """Parametrize a test over cases and the engines that have a kernel for each; a quarter of them is fast."""
    listed: list[Any] = []
    for position, case in enumerate(cases):
        for engine in engines_of(case.type):
            name = f"{case.type}-{case.id if case.id else position}-{engine}"
            listed.append(pytest.param(case, engine, id=name, marks=() if is_fast(name, 4) else pytest.mark.slow))
    return pytest.mark.parametrize(("case", "engine"), listed)


def check_op(case: Case | CaseOfBlobs, engine: str = "", place: Place | None = None) -> None:
    """Run `case` on `engine`, at a place if that is not the host, and assert everything that must hold."""
    if not isinstance(case, Case):
        case.check(place)
        return
    case = case if place is None else replace(case, place=place)
    definition = case.definition(engine)
    inputs = case.arrays()
    results, operator = run(definition, inputs, engine)
    if engine != _engine_that_ran(operator):
        return  # it gave its reason, and the engine that ran has this case too
    _check_specs(operator, inputs, results)
    given: Any = case.expected(*inputs) if callable(case.expected) else case.expected
    expected = cast(
        "Sequence[Any]", given if isinstance(given, (tuple, list)) and not isinstance(given, Int8Tensor) else (given,)
    )
    assert len(expected) == len(results)
    for got, wanted in zip(results, expected, strict=True):
        assert_close(got, wanted, case.slack)
    for before, after in zip(case.arrays(), inputs, strict=True):
        np.testing.assert_array_equal(data_of(before), data_of(after), err_msg="an input was changed")
    again = OperatorDef.FromString(definition.SerializeToString())
    assert again == definition
    _check_strided(case, engine, results)
    _check_in_place(case, engine, results)
    _check_empty(case, engine)
    _check_batched(case, engine, results)
    if case.gradient and isinstance(operator.schema.gradient_rule, GradientRule):
        check_gradient(case, engine)


def run(
    definition: OperatorDef,
    inputs: Sequence[Any],
    engine: str | None = None,
    *,
    refusable: bool = False,
    held: Sequence[Tensor] = (),
) -> tuple[list[Array], Operator]:
    """Run an operator on tensors, or arrays whose memory is shared; returns its outputs and the operator.

    `held` is what outputs hold before, in order, but for those in place.

    With `engine` that engine is asked for and must have run, or have refused as it is declared; where the call is
    `refusable` it may do either.
    """
    asked = OperatorDef.FromString(definition.SerializeToString())
    if engine is not None:
        asked.engine = engine
    blobs = LocalBlobs()
    schema = find_schema(asked.type)
    places, _ = schema.infer_places(schema.typed_view(asked), place_of(asked.device_option))
    for name, value, place in zip(asked.input, inputs, places, strict=True):
        if name not in blobs.blobs:
            given = tensor_of(value)
            blobs.create_blob(name).set(to_place(given, place) if isinstance(given, Tensor) else given)
    for name, before in zip(asked.output, held, strict=False):
        if name not in blobs.blobs:
            blobs.create_blob(name).set(before)
    operator = Operator(asked, blobs, strict=True)
    with np.errstate(all="ignore"):
        operator.run()
    results = [cast("Array", blob.tensor().fetched()) for blob in operator.outputs]
    operator.close()
    if engine is not None:
        check_engine(operator, engine, refusable=refusable)
    return results, operator


def check_engine(operator: Operator, engine: str, *, refusable: bool = False) -> str | None:
    """Assert that `engine` ran, or gave a reason not to, which is returned: as declared, or either if `refusable`."""
    reason = None if _engine_that_ran(operator) == engine else _why_refused(operator, engine)
    if not refusable:
        LEDGER.settle(operator, engine, reason)
    return reason


def assert_ran(operator: Operator, engine: str) -> None:
    """Assert that `engine` ran: what tests of one engine ask, whatever is declared."""
    assert _engine_that_ran(operator) == engine, f"asked for {engine}, ran {operator.choices}"


def _why_refused(operator: Operator, engine: str) -> str:
    reasons = [choice.reason for choice in operator.choices if choice.engine == engine]
    assert reasons, f"{engine} was passed over without a reason: {operator.choices}"
    assert reasons[0], f"{engine} was passed over without a reason: {operator.choices}"
    assert why_unavailable(operator.op.type, operator.place.kind, engine) is None, f"{engine} was not there to refuse"
    return reasons[0]


def _engine_that_ran(operator: Operator) -> str:
    taken = [choice.engine for choice in operator.choices if choice.reason is None]
    assert len(taken) == 1, f"not one engine ran: {operator.choices}"
    return taken[0]


def assert_close(got: Any, wanted: Any, slack: float = 1.0) -> None:
    """Assert equal shape and values, to rounding for floats and to a step for integers with a scale."""
    if isinstance(wanted, Int8Tensor):
        assert_near(got, wanted)
        return
    wanted = np.asarray(wanted)
    assert got.shape == wanted.shape
    if got.dtype.kind == "f":
        relative, absolute = TOLERANCE[got.dtype.name]
        np.testing.assert_allclose(got, wanted, rtol=relative * slack, atol=absolute * slack)
    else:
        np.testing.assert_array_equal(got, wanted)


def check_gradient(case: Case, engine: str, *, seed: int = 0) -> None:
    """Compare the gradient of each input with a float64 central difference of the reference kernel in one direction.

    The tolerance is relative to the norm of the input's own gradient, which is what its product with a random direction
    amounts to.
    """
    random = np.random.default_rng(seed)
    op, inputs, gradients, weights = _gradients(case, engine, random)

    def along(position: int, direction: Array, step: float) -> float:
        moved = [x.astype(np.float64) if x.dtype == np.float32 else x for x in inputs]
        moved[position] = moved[position] + step * direction
        results = evaluate(op, moved)
        return sum(float(np.sum(w * y)) for w, y in zip(weights, results, strict=True) if w is not None)

    for position, gradient in enumerate(gradients):
        if gradient is None:
            continue
        middle = along(position, np.zeros(gradient.shape), 0.0)
        relative = TOLERANCE[gradient.dtype.name][0] * case.slack
        rounding = 1e-15 * (1.0 + abs(middle)) / STEP
        allowed = relative * float(np.linalg.norm(gradient.astype(np.float64))) + rounding
        analytic, numeric = in_some_direction(
            gradient, lambda direction, step, n=position: along(n, direction, step), middle, allowed, random
        )
        assert abs(analytic - numeric) <= allowed, f"input {position}: {analytic} for {numeric}, allowed {allowed}"


def in_some_direction(
    gradient: Array,
    along: Callable[[Array, float], float],
    middle: float,
    allowed: float,
    random: np.random.Generator,
) -> tuple[float, float]:
    """Return the product of a gradient with a direction, and the central difference of `along(direction, step)`.

    `middle` is what `along` gives without a step. A direction along which the difference quotients of the two sides
    part by more than `allowed` lies across a kink: another one is drawn, up to `DIRECTIONS` in all; the last one is
    taken in any case.
    """
    analytic = numeric = 0.0
    for _ in range(DIRECTIONS):
        direction = random.standard_normal(gradient.shape)
        ahead, behind = along(direction, STEP), along(direction, -STEP)
        analytic, numeric = float(np.sum(direction * gradient)), (ahead - behind) / (2 * STEP)
        if abs(ahead - 2 * middle + behind) / STEP <= allowed:
            break
    return analytic, numeric


def _gradients(
    case: Case, engine: str, random: np.random.Generator
) -> tuple[OpView, list[Array], list[Array | None], list[Array | None]]:
    """Run the operator and its emitted gradient; returns gradients by input, and the weights of each output."""
    inputs = case.arrays()
    outputs, operator = run(case.definition(engine), inputs, engine)
    op = operator.op
    weights = [random.standard_normal(y.shape).astype(y.dtype) if y.dtype.kind == "f" else None for y in outputs]
    given = [None if w is None else f"{name}_grad" for name, w in zip(op.definition.output, weights, strict=True)]
    emitted, names = gradient_for_op(op, given)
    blobs = dict(zip((*op.definition.input, *op.definition.output), (*inputs, *outputs), strict=True))
    blobs.update((n, w) for n, w in zip(given, weights, strict=True) if n is not None and w is not None)
    for step in emitted:
        there = engine in engines_of(step.type, place_of(step.device_option))
        made, _ = run(step, [blobs[name] for name in step.input], engine if there else None)
        blobs.update(zip(step.output, made, strict=True))
    dense = [None if name is None else _dense(name, blobs, x) for name, x in zip(names, inputs, strict=True)]
    return op, inputs, dense, weights


def evaluate(op: OpView, inputs: Sequence[Array]) -> list[Array]:
    """Run the reference kernel function directly; float inputs may be float64, which the schema would refuse."""
    specs = [TensorSpec(x.shape, DataType.FLOAT if x.dtype == np.float64 else DataType.of(x)) for x in inputs]

    def value(letter: str) -> Array:  # as inference sees it: extents that follow from values are those of a real run
        found = inputs[op.input_letters.index(letter)]
        return found.astype(np.float32) if found.dtype == np.float64 else found

    known = op.schema.infer_specs(op, specs, value)
    inferred = cast("Sequence[TensorSpec]", known.specs)
    dtypes = [DataType.DOUBLE if s.dtype is DataType.FLOAT else s.dtype for s in inferred]
    results: list[Any] = [
        np.zeros(s.shape, t.numpy) if s.shape_known else DynamicOutput(Tensor((0,), t), t)
        for s, t in zip(inferred, dtypes, strict=True)
    ]
    given = dict(zip(op.definition.input, inputs, strict=True))
    for name, result in zip(op.definition.output, results, strict=True):
        if name in given and given[name].shape == np.shape(result):  # what it leaves as it is stays, in place
            result[...] = given[name]
    function = find_kernel(op.type, "cpu", "reference").function
    assert function is not None
    values = (
        gather(op.schema.inputs, op.input_letters, inputs)
        | gather(op.schema.outputs, op.output_letters, results)
        | {"op": op}
    )
    function(**{name: values[name] for name in inspect.signature(function).parameters})
    return [one.tensor.array if isinstance(one, DynamicOutput) else one for one in results]


def _dense(gradient: str | RowSlices[str], blobs: dict[str, Array], like: Array) -> Array:
    if not isinstance(gradient, RowSlices):
        return blobs[gradient]
    dense = np.zeros(like.shape, blobs[gradient.values].dtype)
    np.add.at(dense, blobs[gradient.indices].reshape(-1), blobs[gradient.values].reshape(-1, *like.shape[1:]))
    return dense


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
        assert isinstance(spec, TensorSpec)
        if not operator.schema.outputs_by_letter[declared].dynamic:
            assert spec == spec_of(result)


def _larger(results: Sequence[Array]) -> list[Tensor]:
    """Return for each result a tensor of its type with one more row in each axis, full of wrong numbers."""
    arrays = [data_of(one) for one in results]
    wrong = [b"wrong" if one.dtype == object else HELD for one in arrays]
    grown = [np.full([n + 1 for n in x.shape], value, x.dtype) for x, value in zip(arrays, wrong, strict=True)]
    return [Tensor.from_numpy(one) for one in grown]


def _check_strided(case: Case, engine: str, results: Sequence[Array]) -> None:
    """Inputs whose memory is not row-major must give the same, in outputs that held something larger, too."""
    strided = [changed(x, cast("Any", _every_second)) for x in case.arrays()]
    held = _larger(results) if case.place.is_host else []
    again, _ = run(case.definition(engine), strided, engine, held=held)
    for got, wanted in zip(again, results, strict=True):
        assert_close(got, wanted, case.slack)


def _check_in_place(case: Case, engine: str, results: Sequence[Array]) -> None:
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
            again, _ = run(aliased, case.arrays(), engine)
            for got, wanted in zip(again, results, strict=True):
                assert_close(got, wanted, case.slack)


def _check_batched(case: Case, engine: str, results: Sequence[Array]) -> None:
    """Where images go their own ways by the schema, each image alone must give its part of the results."""
    definition = case.definition(engine)
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


def _check_empty(case: Case, engine: str) -> None:
    """A batch of 0 must run and give the shapes that inference says."""
    if not case.batched:
        return
    cut = [changed(x, lambda data: data[:0]) if i in case.batched else x for i, x in enumerate(case.arrays())]
    inputs = cast("list[Array]", cut)
    results, operator = run(case.definition(engine), inputs, engine)
    _check_specs(operator, inputs, results)
