"""What schemas declare of effects is what kernels do, as far as it can be watched; and what follows for strangers."""

from __future__ import annotations

import doctest
import inspect
import io
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import FormatError, TazzaError, TrustError, UnknownOperatorError
from tazza.graph.graph import Graph
from tazza.graph.text import parse_net
from tazza.graph.transforms.dead_code import DeadCode
from tazza.operator import (
    SCHEMAS,
    Effects,
    LocalBlobs,
    Operator,
    OpSchema,
    arg,
    blob,
    check_trust,
    effects_of,
    find_schema,
    forget_function,
    host_kernel,
    operator_def,
    register_function,
    run_op,
    schema,
)
from tazza.operator.choice import find_kernel
from tazza.operator.operator import BlobOwner
from tazza.operator.trust import LOADED, RUN
from tazza.proto import NetDef, OperatorDef
from tazza.proto.message import format_text
from tazza.tensor import Blob
from tests.golden import Recording, operators, recordings
from tests.operator.test_golden import feed
from tests.watching import watched

Array = NDArray[Any]
ALL = sorted(SCHEMAS.keys())


def lacking(holds: Callable[[OpSchema], bool]) -> list[str]:
    """Return the types of which something does not hold."""
    return [type for type in ALL if not holds(SCHEMAS[type])]


def levels(declared: OpSchema) -> set[Effects]:
    """Return all effects that an operator type can have: those of a rule, whatever flags are set."""
    if isinstance(declared.effects, Effects):
        return {declared.effects}
    flags = [name for name, spec in declared.args.items() if spec.takes(bool)]
    names = [f"{one.name}{i}" for i, one in enumerate(declared.inputs) if not one.optional]
    given: list[dict[str, Any]] = [dict.fromkeys(flags, value) for value in (False, True)]
    found = [operator_def(declared.type, names, [], **one) for one in given]
    return {effects_of(definition) for definition in found}


def test_every_operator_declares_its_effects() -> None:
    assert lacking(lambda declared: declared.effects is not None) == [], "schema(..., effects=...)"


def test_effects_are_those_of_the_kernel() -> None:
    """An array kernel computes, and draws if it asks for numbers; one that sees blobs does more than that."""

    def right(declared: OpSchema) -> bool:
        kernel = find_kernel(declared.type, "cpu", "reference")
        if kernel.host is not None:
            assert kernel.function is not None
            free = {"workspace", "operator"} & set(inspect.signature(kernel.function).parameters)
            return min(levels(declared)) >= (Effects.WORKSPACE if free else Effects.STATE)
        assert kernel.function is not None
        draws = "random" in inspect.signature(kernel.function).parameters
        return levels(declared) == {Effects.RANDOM if draws else Effects.PURE}

    assert lacking(right) == []


def test_what_keeps_something_is_not_pure() -> None:
    """Neither an engine that opens state in the workspace, nor a blob that is no tensor."""

    def right(declared: OpSchema) -> bool:
        others = any(spec.type_name is not None for spec in (*declared.inputs, *declared.outputs))
        return not others or min(levels(declared)) >= Effects.STATE

    assert lacking(right) == []


def golden() -> Iterator[Recording]:
    """Yield one recorded run of each operator."""
    for type in operators():
        if type in SCHEMAS:
            yield next(recordings(type))


def make(recording: Recording, before: Any = None) -> Operator:
    """Return the operator of a recording, ready to run on the definition; its outputs hold something else already."""
    blobs = LocalBlobs()
    declared = find_schema(recording.definition.type)
    letters = declared.view(recording.definition).input_letters
    for name, letter, value in zip(recording.definition.input, letters, recording.inputs, strict=True):
        feed(blobs, name, declared.inputs_by_letter[letter].type_name, value)
    for name in recording.definition.output:
        if before is not None and name not in recording.definition.input:
            blobs.create_blob(name).tensor().assign(before)
    definition = OperatorDef()
    definition.CopyFrom(recording.definition)
    definition.engine = "reference"
    return Operator(definition, blobs)


def run(operator: Operator) -> list[bytes]:
    """Run once and return the bytes of the outputs."""
    with np.errstate(all="ignore"):
        operator.run()
    arrays = [one.tensor().plain() for one in operator.outputs]
    operator.close()
    return [repr(array.tolist()).encode() if array.dtype == object else array.tobytes() for array in arrays]


@pytest.mark.slow
def test_what_is_not_io_asks_nothing_of_the_system() -> None:
    """Recorded runs, after one that imports whatever has to be imported, in all operators that have recordings."""
    for recording in golden():
        effects = effects_of(recording.definition)
        first = run(make(recording))
        with watched() as notes:
            second = run(make(recording, np.full((3, 2), 7, np.int32) if effects is Effects.PURE else None))
        if effects < Effects.IO:
            assert notes == [], recording.name
        if effects is Effects.PURE:
            assert second == first, f"{recording.name} depends on what its outputs held, or on an earlier run"


def asked(example: str) -> list[str]:
    """Run an example and return the events that reach beyond the process."""
    with watched() as notes, redirect_stdout(io.StringIO()):
        exec(example, {"run": partial(run_op, engine="reference"), "np": np, "net": parse_net})
    return [event for event, _ in notes]


@pytest.mark.slow
def test_examples_of_others_that_are_not_io_ask_nothing_either() -> None:
    asking: set[str] = set()
    for type in set(ALL) - set(operators()):
        example = "".join(part.source for part in doctest.DocTestParser().get_examples(SCHEMAS[type].example))
        asked(example)  # imports
        notes = asked(example)
        assert not notes or max(levels(SCHEMAS[type])) is Effects.IO, type
        asking.update([type] if notes else [])
    assert {"Save", "Load"} <= asking, "what opens files is seen"


# -- operators that say nothing, functions, nets within ----------------------------------------------------------------


@pytest.fixture
def undeclared() -> Iterator[str]:
    """Give the type of an operator that declares nothing but its blobs, and arguments with nets; it is never run."""
    made = schema(
        "TestBody",
        "Y = what the body makes of X.",
        inputs=[blob("X", dims="*S")],
        outputs=[blob("Y", like="X")],
        args=[arg("body", NetDef | str, None), arg("doc_text", str, "")],
        no_gradient=None,
    )
    yield made.type
    forget_function(made.type)


def body(*lines: str) -> NetDef:
    """Return a net that is to stand in an argument."""
    return parse_net("net: body", *lines)


def test_what_declares_nothing_does_everything(undeclared: str) -> None:
    assert effects_of(operator_def(undeclared, ["x"], ["y"])) is Effects.IO
    with pytest.raises(TrustError, match=r"a test: operator 0 of net 'outer' is TestBody.*declares no effects"):
        check_trust(parse_net("net: outer", f"y = {undeclared}(x)"), RUN, source="a test")
    graph = Graph.of(parse_net("in: x", "out: z", f"y = {undeclared}(x)", "z = Relu(x)"))
    assert [node.pure for node in graph.nodes()] == [False, True]


def double(X: Array) -> Array:
    """Return 2 X."""
    return X + X


def test_a_registered_function_says_what_it_does() -> None:
    lines = ("in: x", "out: z", "a = TestDouble(x)", "z = Relu(x)")
    try:
        register_function(double, "TestDouble")
        assert effects_of(operator_def("TestDouble", ["x"], ["y"])) is Effects.IO
        assert len(DeadCode().apply(parse_net(*lines)).net.op) == 2
        forget_function("TestDouble")
        register_function(double, "TestDouble", effects=Effects.PURE)
        assert effects_of(operator_def("TestDouble", ["x"], ["y"])) is Effects.PURE
        assert [op.type for op in DeadCode().apply(parse_net(*lines)).net.op] == ["Relu"]
    finally:
        forget_function("TestDouble")


@pytest.fixture
def branch() -> Iterator[str]:
    """Give the type of an operator that keeps to its workspace, whatever the nets in its arguments do."""
    made = schema(
        "TestBranch",
        "Y = what the body makes of X.",
        inputs=[blob("X", dims="*S")],
        outputs=[blob("Y", like="X")],
        args=[arg("body", NetDef | str, None), arg("text", str, "")],
        effects=Effects.WORKSPACE,
        no_gradient=None,
    )

    @host_kernel(made)
    def copy(workspace: BlobOwner, X: Blob, Y: Blob) -> None:
        workspace.create_blob("seen").tensor().assign(X.tensor().plain())
        Y.tensor().assign(X.tensor().plain())

    yield made.type
    forget_function(made.type)


HARMFUL, HARMLESS = body("Print(x; to_file=True)"), body("t = Iter()", "Print(x)")


def holding(type: str, form: str, inner: NetDef) -> NetDef:
    """Return a net with an operator that holds another: as a net, among several, as text, or two floors down."""
    op = operator_def(type, ["x"], ["y"])
    argument = op.arg.add(name="bodies" if form == "nets" else "body")
    if form == "net":
        argument.n.CopyFrom(inner)
    elif form == "nets":
        argument.nets.extend([HARMLESS, inner])
    elif form == "text":
        argument.s = format_text(inner).encode()
    else:
        argument.n.CopyFrom(NetDef(name="middle", op=holding(type, "text", inner).op))
    return NetDef(name="outer", op=[op])


@pytest.mark.parametrize("form", ["net", "nets", "text", "deep"])
def test_nets_within_count(branch: str, form: str) -> None:
    harmless, harmful = holding(branch, form, HARMLESS), holding(branch, form, HARMFUL)
    assert effects_of(harmless.op[0]) is Effects.WORKSPACE
    assert effects_of(harmful.op[0]) is Effects.IO
    check_trust(harmless, RUN, source="a test")
    check_trust(harmful, Effects.IO, source="a test")
    with pytest.raises(TrustError, match=r"operator 0 of net 'body', in operator 0 of net .* is Print.*read or write"):
        check_trust(harmful, RUN, source="a test")
    with pytest.raises(TrustError, match="is TestBranch, which does more than compute tensors"):
        check_trust(harmless, LOADED, source="a test")


def test_text_is_a_net_only_where_the_schema_says_so(branch: str) -> None:
    op = operator_def(branch, ["x"], ["y"], text=format_text(HARMFUL))
    assert effects_of(op) is Effects.WORKSPACE
    with pytest.raises(FormatError, match="argument 'body' of TestBranch is no"):
        effects_of(operator_def(branch, ["x"], ["y"], body="no net"))


def test_what_nobody_knows_is_an_error(branch: str) -> None:
    with pytest.raises(UnknownOperatorError, match="Shell") as caught:
        check_trust(holding(branch, "net", NetDef(op=[OperatorDef(type="Shell")])), Effects.IO, source="a test")
    assert "in operator 0 of net '', in operator 0 of net 'outer' (Shell), from a test" in str(caught.value)
    with pytest.raises(TazzaError, match="SpatialBN has 1 inputs"):
        effects_of(operator_def("SpatialBN", ["x"], ["y"]))
