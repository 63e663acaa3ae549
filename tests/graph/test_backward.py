"""The backward pass: the operators that Caffe2 emits, with the names that it gives."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, GradientError, TazzaError
from tazza.graph import backward_pass
from tazza.operator import (
    FLOAT,
    SCHEMAS,
    Effects,
    RowSlices,
    blob,
    ends,
    forget_function,
    operator_def,
    schema,
    stops,
)
from tazza.operator.gradient import GradientRequest, GradientRule
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "backward_passes.json").read_text())


def op(type: str, inputs: str, outputs: str, **arguments: Any) -> OperatorDef:
    """Return an OperatorDef; names in one text, separated by blanks."""
    return operator_def(type, inputs.split(), outputs.split(), **arguments)


def lines(ops: list[OperatorDef]) -> list[str]:
    """Return one line `type: inputs -> outputs` for each operator."""
    return [f"{o.type}: {' '.join(o.input)} -> {' '.join(o.output)}" for o in ops]


def in_fixed_order(ops: list[OperatorDef]) -> list[bytes]:
    """Return the operators serialized; sums that follow each other in sorted order, since Caffe2 emits them in none."""
    ordered: list[bytes] = []
    sums: list[bytes] = []
    for one in ops:
        if one.device_option.extra_info:
            sums.append(one.SerializeToString())
            continue
        ordered += [*sorted(sums), one.SerializeToString()]
        sums = []
    return ordered + sorted(sums)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda r: r["id"])
def test_recorded_passes_of_caffe2(recorded: dict[str, Any]) -> None:
    """Random nets, and operators that read a blob twice: emitted operators and gradient map, or that it refused."""
    forward = NetDef.FromString(bytes.fromhex(recorded["forward"]))
    if "refused" in recorded:
        with pytest.raises(GradientError):
            backward_pass(forward.op, recorded["targets"])
        return
    emitted, gradients = backward_pass(forward.op, recorded["targets"])
    wanted = NetDef.FromString(bytes.fromhex(recorded["backward"]))
    assert in_fixed_order(emitted) == in_fixed_order(list(wanted.op))
    assert gradients == recorded["gradients"]


def test_names_when_gradients_are_accumulated() -> None:
    """behaviours.md row 14."""
    net = [op("Relu", "s/x", f"{letter}") for letter in "pqr"]
    emitted, gradients = backward_pass([*net, op("Sum", "p q r", "t"), op("AveragedLoss", "t", "l")], ["l"])
    assert lines(emitted) == [
        "ConstantFill: l -> l_autogen_grad",
        "AveragedLossGradient: t l_autogen_grad -> t_grad",
        "ReluGradient: r t_grad -> s/x_grad",
        "ReluGradient: q t_grad -> _s/x_grad_autosplit_0",
        "ReluGradient: p t_grad -> _s/x_grad_autosplit_1",
        "Sum: s/x_grad _s/x_grad_autosplit_0 _s/x_grad_autosplit_1 -> s/x_grad",
    ]
    assert not emitted[-1].is_gradient_op
    assert list(emitted[-1].device_option.extra_info) == ["is_auto_gen_sum_ops:1"]
    assert gradients["s/x"] == "s/x_grad"


@pytest.mark.parametrize(
    ("devices", "adds"), [([(0, 0), (0, 1)], True), ([(1, 0), (1, 1)], False), ([(0, 0), (1, 0)], False)]
)
def test_gradients_of_one_device_are_added(devices: list[tuple[Any, int]], adds: bool) -> None:
    """The host is one, whatever numbers its devices have, as in Caffe2; the sum is where the last reader was."""
    net = [op("Relu", "x", "p"), op("Relu", "x", "q")]
    for one, (kind, number) in zip(net, devices, strict=True):
        one.device_option.device_type, one.device_option.device_id = kind, number
    net.append(op("Add", "p q", "t"))
    if not adds:
        with pytest.raises(GradientError, match="gradients of 'x' are made on different devices"):
            backward_pass(net, ["t"])
        return
    emitted, _ = backward_pass(net, ["t"])
    assert lines(emitted)[-1] == "Sum: x_grad _x_grad_autosplit_0 -> x_grad"
    assert emitted[-1].device_option.device_id == 1


def test_gradients_that_are_passed_through() -> None:
    """behaviours.md row 15: Sum emits nothing."""
    _, gradients = backward_pass([op("Sum", "a b", "s"), op("AveragedLoss", "s", "l")], ["l"])
    assert gradients == {"l": "l_autogen_grad", "s": "s_grad", "a": "s_grad", "b": "s_grad"}


def test_in_place_is_fine_where_the_output_is_read() -> None:
    """behaviours.md row 15: the gradient of Relu reads its output."""
    emitted, _ = backward_pass([op("FC", "x w b", "y"), op("Relu", "y", "y"), op("AveragedLoss", "y", "l")], ["l"])
    assert len(emitted) == 4


def test_an_operator_that_reads_a_blob_twice() -> None:
    """Each gradient that it writes for it counts."""
    emitted, gradients = backward_pass([op("Relu", "x", "r"), op("Concat", "x z x", "y s")], {"r": "dr", "y": "dy"})
    assert lines(emitted) == [
        "Split: dy s -> x_grad z_grad _x_grad_autosplit_0",
        "ReluGradient: r dr -> _x_grad_autosplit_1",
        "Sum: x_grad _x_grad_autosplit_0 _x_grad_autosplit_1 -> x_grad",
    ]
    assert gradients["x"] == "x_grad"


def test_an_overwritten_blob_that_is_needed() -> None:
    """behaviours.md row 15: the second operator overwrites what the gradient of the first must read."""
    net = [op("Relu", "x", "y"), op("Scale", "y", "y"), op("AveragedLoss", "y", "l")]
    with pytest.raises(GradientError, match="needs 'y' as it was after 0 writes, it has been written 1 times"):
        backward_pass(net, ["l"])


def test_stop_gradient() -> None:
    """behaviours.md row 13."""
    net = [op("FC", "x w b", "y"), op("StopGradient", "y", "y"), op("FC", "y w2 b2", "z"), op("AveragedLoss", "z", "l")]
    _, gradients = backward_pass(net, ["l"])
    assert sorted(gradients) == ["b2", "l", "w2", "z"]
    with pytest.raises(ValueError, match="nothing reads 'y', the output of StopGradient"):
        backward_pass([op("StopGradient", "x", "y"), op("AveragedLoss", "x", "l")], ["l"])


def test_the_start_gradient_takes_the_scope() -> None:
    """behaviours.md row 2: Caffe2 scopes the name of a started gradient a second time."""
    net = [op("Relu", "s/x", "s/y"), op("AveragedLoss", "s/y", "s/loss")]
    _, gradients = backward_pass(net, ["s/loss"], scope="s/")
    assert gradients == {"s/loss": "s/s/loss_autogen_grad", "s/y": "s/y_grad", "s/x": "s/x_grad"}


def test_given_gradients_start_without_a_fill() -> None:
    emitted, gradients = backward_pass([op("Relu", "x", "y")], {"y": "dy"})
    assert lines(emitted) == ["ReluGradient: y dy -> x_grad"]
    assert gradients == {"y": "dy", "x": "x_grad"}


@pytest.mark.parametrize("seed", range(20))
def test_given_gradients_are_added_whatever_they_are_called(seed: int) -> None:
    """Caffe2 writes over one that is called as it would call its own."""
    draw = random.Random(seed)
    names = ["b0", "b1"]
    ops: list[OperatorDef] = []
    for count in range(2, 7):
        inputs = draw.choices(names, k=draw.choice([1, 2]))
        kind = draw.choice(["Tanh", "Sigmoid"] if len(inputs) == 1 else ["Add", "Mul", "Sum"])
        ops.append(operator_def(kind, inputs, [f"b{count}"]))
        names.append(f"b{count}")
    wanted = draw.sample(names[2:], 3)
    numbers = np.random.default_rng(seed)
    fed = {name: numbers.standard_normal(3).astype(np.float32) for name in ("b0", "b1", *(f"d{n}" for n in wanted))}

    def gradients(called: str) -> dict[str, Any]:
        home = Workspace()
        given = {name: called.format(name) for name in wanted}
        for name, value in fed.items():
            home.feed(given.get(name.removeprefix("d"), name), value)
        emitted, found = backward_pass(ops, given)
        home.run_net_once(NetDef(name="net", op=[*ops, *emitted]))
        assert emitted
        return {name: home.fetch(str(found[name])) for name in ("b0", "b1") if name in found}

    own, others = gradients("given/{}"), gradients("{}_grad")
    assert own.keys() == others.keys()
    for name, value in own.items():
        np.testing.assert_allclose(others[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.fixture
def gather() -> Iterator[None]:
    """An operator whose gradient is sparse, as that of Caffe2's Gather is: rows `I` of `T`."""
    made = schema(
        "TestGather", "R = T[J].", inputs=[blob("T"), blob("J")], outputs=[blob("R", "T")], no_gradient=ends("")
    )

    def rule(g: GradientRequest) -> list[OperatorDef]:
        g.sparse(0, indices=g.J, values=g.dR)
        return []

    made.gradient(rule)
    yield
    SCHEMAS.unregister("TestGather")


@pytest.mark.usefixtures("gather")
def test_sparse_gradients_are_concatenated() -> None:
    """behaviours.md row 14."""
    net = [
        op("TestGather", "w i", "a"),
        op("TestGather", "w j", "b"),
        op("Sum", "a b", "s"),
        op("AveragedLoss", "s", "l"),
    ]
    emitted, gradients = backward_pass(net, ["l"])
    assert lines(emitted)[2:] == [
        "Concat: j i -> w_grad_indices_concat w_grad_indices_concat_split",
        "Concat: s_grad s_grad -> w_grad_values_concat w_grad_values_concat_split",
    ]
    assert gradients["w"] == RowSlices("w_grad_indices_concat", "w_grad_values_concat")


@pytest.mark.usefixtures("gather")
def test_dense_and_sparse_gradients_do_not_mix() -> None:
    """behaviours.md row 15."""
    net = [op("TestGather", "w i", "a"), op("Relu", "w", "b"), op("Sum", "a b", "s"), op("AveragedLoss", "s", "l")]
    with pytest.raises(GradientError, match="blob 'w' has dense and sparse gradients"):
        backward_pass(net, ["l"])


def test_forbidden_gradients_say_why() -> None:
    with pytest.raises(GradientError, match="Accuracy must not be asked for its gradient"):
        backward_pass([op("Accuracy", "x label", "a")], ["a"])


def test_targets_are_a_list() -> None:
    with pytest.raises(ArgumentError, match="targets is the text 'loss', not a list"):
        backward_pass([op("Relu", "x", "loss")], "loss")


def test_what_ends_on_purpose_or_starts_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass knows no operator by name: any other with the same declaration is treated alike."""
    rule = SCHEMAS["Flatten"].gradient_rule
    assert isinstance(rule, GradientRule)
    net = [op("Flatten", "x", "y"), op("AveragedLoss", "x", "l")]
    assert [made.type for made in backward_pass(net, ["l"])[0]] == ["ConstantFill", "AveragedLossGradient"]
    monkeypatch.setattr(SCHEMAS["Flatten"], "gradient_rule", stops("a test"))
    with pytest.raises(GradientError, match="nothing reads 'y', the output of Flatten"):
        backward_pass(net, ["l"])
    asked: list[str] = []

    def started(request: GradientRequest) -> list[OperatorDef]:
        asked.append(request.op.type)
        return []

    monkeypatch.setattr(SCHEMAS["Flatten"], "gradient_rule", replace(rule, maker=started, unasked=True))
    backward_pass(net, ["l"])
    assert asked == ["Flatten"]


@pytest.mark.parametrize("which", ["input", "output"])
def test_a_maker_asks_for_what_its_gradient_reads(which: str) -> None:
    """A name from the definition is refused, in place or not: only what is asked for is known to be there."""
    made = schema("TestNames", "For tests.", inputs=[blob("X")], outputs=[blob("Y")], in_place={"Y": "X"})

    @made.gradient
    def by_name(g: GradientRequest) -> list[OperatorDef]:
        return g.emit("Mul", [getattr(g.definition, which)[0], g.dY], [g.dX])

    try:
        for target in ("x", "y"):
            with pytest.raises(GradientError, match=r"reads '[xy]', for which its maker did not ask the request"):
                backward_pass([op("TestNames", "x", target)], {target: "given"})

        @made.gradient
        def asking(g: GradientRequest) -> list[OperatorDef]:
            return g.emit("Mul", [g.X if which == "input" else g.Y, g.dY], [g.dX])

        emitted, _ = backward_pass([op("TestNames", "x", "y")], {"y": "given"})
        assert lines(emitted) == [f"Mul: {'x' if which == 'input' else 'y'} given -> x_grad"]
    finally:
        SCHEMAS.unregister("TestNames")


BAD_MAKERS: dict[str, tuple[Callable[[GradientRequest], Any], str]] = {
    "a letter that is none": (lambda g: g.emit("Relu", [g.Z], [g.dX]), "failed: AttributeError: TestMade has no blob"),
    "an operator that is none": (lambda g: g.emit("Reluu", [g.dY], [g.dX]), "emits 'Reluu', which (?s:.*)mean Relu"),
    "nothing": (lambda g: None, "it returned None"),
    "an argument of no type": (lambda g: g.emit("Relu", [g.dY], [g.dX], a=object()), "'a' cannot hold"),
}


@pytest.mark.parametrize(("maker", "text"), BAD_MAKERS.values(), ids=BAD_MAKERS)
def test_a_mistake_in_a_gradient_maker_is_told_with_its_operator_and_line(
    maker: Callable[[GradientRequest], Any], text: str
) -> None:
    made = schema(
        "TestMade", "Y = X.", inputs=[blob("X", FLOAT, "*S")], outputs=[blob("Y", like="X")], effects=Effects.PURE
    )
    try:
        made.gradient(maker)
        with pytest.raises(TazzaError, match=text) as caught:
            backward_pass([operator_def("TestMade", ["x"], ["y"])], {"y": "dy"})
    finally:
        forget_function("TestMade")
    assert f"in the gradient maker of TestMade, {__file__}, line " in str(caught.value)
