"""Nets that were saved for a device that is not there: what is said, and running them on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tazza.errors import ArgumentError, UnavailableError, UnknownOperatorError
from tazza.graph.text import parse_net
from tazza.interop import load
from tazza.nets import NETS, create_net
from tazza.nets.device import check_devices, on_cpu
from tazza.operator import Effects, arg, blob, forget_function, host_kernel, operator_def, schema
from tazza.proto import DeviceOption, NetDef
from tazza.proto.message import format_text, parse_text, write_message
from tazza.tensor import Blob
from tazza.workspace import Workspace
from tests.cli.conftest import Run, run

__all__ = ["run"]  # a fixture

CUDA = DeviceOption(device_type=1, device_id=2, random_seed=7)
INIT = ("w = GivenTensorFill(; shape=[2, 3], values=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])", "b = ConstantFill(; shape=[2])")
LINES = ("net: predict", "in: x, w, b", "out: z", "y = FC(x, w, b)", "z = Relu(y)")  # which passes fuse


@pytest.fixture(scope="module", autouse=True)
def body() -> Iterator[None]:
    """Declare an operator that holds nets, as a net or as text."""
    made = schema(
        "TestStep",
        "Y = X; the nets are only looked at.",
        inputs=[blob("X", dims="*S")],
        outputs=[blob("Y", like="X")],
        args=[arg("step_net", NetDef | str, None), arg("note", str, "")],
        effects=Effects.WORKSPACE,
    )

    @host_kernel(made)
    def copy(X: Blob, Y: Blob) -> None:
        Y.tensor().assign(X.tensor().plain())

    yield
    forget_function(made.type)


def on_net(net: NetDef) -> None:
    """Save for CUDA as a whole."""
    net.device_option.CopyFrom(CUDA)


def on_operators(net: NetDef) -> None:
    """Save every operator for CUDA."""
    for op in net.op:
        op.device_option.CopyFrom(CUDA)


def _within(net: NetDef) -> NetDef:
    inner = parse_net("net: inner", "t = Relu(x)")
    on_operators(inner)
    net.op.append(operator_def("TestStep", ["z"], ["s"]))
    return inner


def in_a_net(net: NetDef) -> None:
    """Hold a net that was saved for CUDA."""
    inner = _within(net)
    net.op[-1].arg.add(name="step_net").n.CopyFrom(inner)


def in_nets(net: NetDef) -> None:
    """Hold several of them."""
    inner = _within(net)
    net.op[-1].arg.add(name="step_nets").nets.extend([inner, inner])


def in_text(net: NetDef) -> None:
    """Hold one as text, as nets of 2017 do, within another."""
    inner = _within(net)
    middle = NetDef(name="middle")
    middle.op.append(operator_def("TestStep", ["z"], ["s"], step_net=format_text(inner)))
    net.op[-1].arg.add(name="step_net", s=format_text(middle).encode())


PLACES: list[tuple[Callable[[NetDef], None], str]] = [
    (on_net, r"operator 0 of net 'predict', FC \(x, w, b -> y\) is to run on cuda:2"),
    (on_operators, r"operator 0 of net 'predict', FC \(x, w, b -> y\) is to run on cuda:2"),
    (in_a_net, r"operator 0 of net 'inner', Relu \(x -> t\), in operator 2 of net 'predict', TestStep .* on cuda:2"),
    (in_nets, r"operator 0 of net 'inner', Relu \(x -> t\), in operator 2 of net 'predict', TestStep .* on cuda:2"),
    (in_text, r"operator 0 of net 'inner', Relu .*, in operator 0 of net 'middle', .* in operator 2 of net 'predict'"),
]


@pytest.mark.parametrize(("save", "words"), PLACES, ids=lambda one: getattr(one, "__name__", ""))
def test_the_error_names_the_nets_own_operator_and_the_cpu_runs_it(save: Callable[[NetDef], None], words: str) -> None:
    net = parse_net(*LINES)
    save(net)
    given = net.SerializeToString()
    with pytest.raises(UnknownOperatorError, match=words) as caught:
        load(parse_net(*INIT), net)
    assert "device='cpu'" in str(caught.value)
    with load(parse_net(*INIT), net, device="cpu") as predictor:
        assert predictor.run(x=np.array([[1, 0, 0]], np.float32))["z"].tolist() == [[1, 4]]
    assert net.SerializeToString() == given, "the caller's net stays as it is"
    check_devices(on_cpu(net))


def test_every_net_type_says_the_same() -> None:
    for type in NETS.keys():
        for save in (on_net, on_operators):
            net = parse_net(*LINES)
            net.type, net.num_workers = type, 1
            save(net)
            workspace = Workspace()
            for name in ("x", "w", "b"):
                workspace.feed(name, np.ones((2, 3), np.float32))
            with pytest.raises(UnknownOperatorError, match=r"operator 0 of net 'predict', FC .* is to run on cuda:2"):
                create_net(net, workspace)


def test_what_is_no_device_stays() -> None:
    net = parse_net(*LINES)
    on_operators(net)
    on_net(net)
    net.op[1].device_option.node_name = "trainer"
    in_text(net)
    found = on_cpu(net)
    assert (found.device_option.random_seed, found.op[1].device_option.node_name) == (7, "trainer")
    assert not any(op.device_option.HasField("device_type") for op in (*found.op, found))
    middle = parse_text(NetDef, found.op[2].arg[0].s.decode(), "a test")
    inner = parse_text(NetDef, middle.op[0].arg[0].s.decode(), "a test")
    assert inner.op[0].device_option == DeviceOption(random_seed=7)
    plain = parse_net(*LINES)
    plain.op[0].device_option.CopyFrom(DeviceOption(device_type=1))
    assert on_cpu(plain) == parse_net(*LINES)


def test_the_init_net_and_other_kinds_of_devices() -> None:
    init = parse_net(*INIT)
    on_operators(init)
    with pytest.raises(
        UnknownOperatorError, match=r"operator 0 of net '', GivenTensorFill \( -> w\) is to run on cuda"
    ):
        load(init, parse_net(*LINES))
    load(init, parse_net(*LINES), device="cpu").close()
    net = parse_net(*LINES)
    net.device_option.device_type = 4
    with pytest.raises(UnavailableError, match=r"device type 4(?s:.)*operator 0 of net 'predict', FC") as caught:
        load(parse_net(*INIT), net)
    assert "device='cpu'" in str(caught.value)
    load(parse_net(*INIT), net, device="cpu").close()
    with pytest.raises(ArgumentError, match="device = 'cuda' is not 'cpu'"):
        load(parse_net(*INIT), net, device="cuda")


@pytest.mark.parametrize("type", sorted(NETS.keys()))
@pytest.mark.parametrize("saved", ["operators", "net", "one operator"])
def test_ideep_is_the_cpu(type: str, saved: str) -> None:
    """MKL-DNN ran on the CPU: nets of it give the same bits, wherever they name it."""
    found: list[bytes] = []
    for device in (0, 5):
        net = parse_net(*LINES)
        net.type, net.num_workers = type, 2
        options = {
            "operators": [op.device_option for op in net.op],
            "net": [net.device_option],
            "one operator": [net.op[0].device_option],
        }
        for option in options[saved]:
            option.device_type = device
        ws = Workspace()
        ws.run_net_once(parse_net(*INIT))
        ws.feed("x", np.array([[1, -2, 3]], np.float32))
        ws.run_net_once(net)
        found.append(ws.fetch("z").tobytes())
    assert found[0] == found[1]


@pytest.mark.slow
def test_commands_take_the_device(run: Run, tmp_path: Path) -> None:
    net = parse_net(*LINES)
    on_net(net)
    write_message(tmp_path / "init_net.pb", parse_net(*INIT))
    write_message(tmp_path / "predict_net.pb", net)
    np.save(tmp_path / "x.npy", np.ones((1, 1, 1, 3), np.float32))
    for words in (("predict", tmp_path, tmp_path / "x.npy"), ("profile", tmp_path, "--shape", "x=1,3", "--runs", 1)):
        refused, done = run(*words), run(*words, "--device", "cpu")
        assert (refused.exit_code, "--device cpu" in refused.stderr) == (1, True), refused.stderr
        assert done.exit_code == 0, done.stderr
    assert run("show", tmp_path, "--shape", "x=1,3").exit_code == 0
