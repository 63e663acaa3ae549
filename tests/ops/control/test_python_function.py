"""Python, PythonGradient, PythonDLPack, PythonDLPackGradient: what functions see, errors, gradients, and refusals.

The expected gradient operators are those that Caffe2 emitted; behaviours.md row 35.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, DuplicateError, NotFoundError, TazzaError, TrustError
from tazza.graph import backward_pass
from tazza.interop import load
from tazza.nets import create_net
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.ops.control.python_function import DLPackTensor, PythonTensor, forget_python, register_python
from tazza.proto import NetDef, OperatorDef, TensorProto
from tazza.proto.message import write_message
from tazza.tensor import Tensor
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
Function = Callable[[Any, Any], object] | Callable[[Any, Any, Any], object]


class Register(Protocol):
    """What the fixture gives."""

    def __call__(self, function: Function, gradient: Function | None = None, *, pass_workspace: bool = False) -> str:
        """Register a function until the test ends; see `register_python`."""
        ...


@pytest.fixture
def register() -> Iterator[Register]:
    """Register functions, until the test ends."""
    tokens: list[str] = []

    def note(function: Function, gradient: Function | None = None, *, pass_workspace: bool = False) -> str:
        tokens.append(register_python(function, gradient, pass_workspace=pass_workspace))
        return tokens[-1]

    yield note
    for token in tokens:
        forget_python(token)


def double(inputs: list[PythonTensor], outputs: list[PythonTensor]) -> None:
    """Write into the memory of the output."""
    outputs[0].reshape(inputs[0].shape)
    outputs[0].data[...] = 2 * inputs[0].data


def twice(inputs: list[PythonTensor], outputs: list[PythonTensor]) -> None:
    """Be the gradient of `double`."""
    assert len(inputs) == 3
    outputs[0].feed(2 * inputs[2].data)


def pass_on(inputs: list[DLPackTensor], outputs: list[DLPackTensor]) -> None:
    """Hand the memory of the last input on."""
    outputs[0].feed(Tensor.from_dlpack(Capsule(inputs[-1].data)).numpy())


class Capsule:
    """What NumPy and tensors take a capsule from."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


DOUBLE, PASS_ON = register_python(double, twice), register_python(pass_on, pass_on)
CASES = [
    Sequence(
        type,
        (
            Step(operator_def(type, ["x"], ["y"], token=token), {"y": y}, {"x": X}),
            Step(operator_def(f"{type}Gradient", ["x", "y", "dy"], ["dx"], token=token), {"dx": dx}, {"dy": X + 1}),
        ),
        stored=True,
    )
    for type, token, y, dx in (("Python", DOUBLE, 2 * X, 2 * X + 2), ("PythonDLPack", PASS_ON, X, X + 1))
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def test_what_functions_see(register: Register) -> None:
    seen: list[Any] = []

    def look(inputs: list[PythonTensor], outputs: list[PythonTensor]) -> None:
        seen.append((inputs[0].shape, inputs[0].fetch().tolist(), outputs[0].shape, outputs[0].data.tolist()))
        outputs[0].init([2], TensorProto.INT32)
        outputs[0].data[...] = 7

    found = run_op("Python", X, token=register(look))
    assert (found.dtype, found.tolist()) == (np.int32, [7, 7])
    assert seen == [((2, 3), X.tolist(), (0,), [])]
    np.testing.assert_array_equal(run_op("Python", X, token=register(double)), 2 * X)
    assert run_op("Python", outputs=0, token=register(lambda inputs, outputs: seen.append((inputs, outputs)))) == ()
    assert seen[-1] == ([], [])


def test_a_builder_makes_a_function_for_each_operator(register: Register) -> None:
    made: list[list[int]] = []

    def build() -> Callable[..., None]:
        runs: list[int] = []
        made.append(runs)

        def note(inputs: Any, outputs: Any) -> None:
            runs.append(inputs[0].data.item())

        return note

    def gradient() -> Callable[..., None]:
        def double(inputs: Any, outputs: Any) -> None:
            outputs[0].feed(inputs[0].data * 2)

        return double

    token = register_python(build, gradient, builds=True)
    home = Workspace()
    home.feed("X", np.array([7]))
    op = operator_def("Python", ["X"], [], token=token)
    nets = [home.create_net(NetDef(name=name, op=[op, op])) for name in ("first", "second")]
    for value in range(3):
        home.feed("X", np.array([value]))
        nets[0].run()
    nets[1].run()
    assert made == [[0, 1, 2], [0, 1, 2], [2], [2]]
    back = operator_def("PythonGradient", ["X"], ["dX"], token=token)
    home.run_net_once(NetDef(op=[back]))
    assert home.fetch("dX").tolist() == [4]
    forget_python(token)


@pytest.mark.parametrize("type", ["simple", "dag", "async_scheduling", "plan"])
def test_nets_call_them(type: str, register: Register) -> None:
    """In place over any input, beside operators that are compiled, with the workspace where it is wanted."""

    def swap(inputs: list[PythonTensor], outputs: list[PythonTensor], workspace: Workspace) -> None:
        first, second = (one.fetch() for one in inputs)
        outputs[0].feed(second)
        outputs[1].feed(first)
        workspace.create_blob("note").set("here")

    ops = [
        operator_def("Relu", ["x"], ["a"]),
        operator_def("Scale", ["x"], ["b"], scale=3.0),
        operator_def("Python", ["a", "b"], ["b", "a"], token=register(swap, pass_workspace=True)),
        operator_def("Sub", ["a", "b"], ["y"]),
    ]
    workspace = Workspace()
    workspace.feed("x", -X)
    net = create_net(NetDef(name="n", type=type, num_workers=2, op=ops, external_output=["y"]), workspace)
    for _ in range(3):
        net.run()
    np.testing.assert_array_equal(workspace.fetch("y"), 0 - (-3 * X))
    net.close()


@pytest.mark.parametrize("type", ["simple", "async_scheduling", "plan"])
def test_what_they_raise_keeps_its_type(type: str, register: Register) -> None:
    """behaviours.md row 35."""
    workspace = Workspace()
    workspace.feed("x", X)
    op = operator_def("Python", ["x"], ["y"], token=register(lambda inputs, outputs: 1 / 0))
    net = create_net(NetDef(name="n", type=type, num_workers=1, op=[op]), workspace)
    with pytest.raises(ZeroDivisionError) as caught:
        net.run()
    assert any("in operator Python(x -> y)" in note for note in caught.value.__notes__)
    net.close()


def test_gradients_are_those_of_caffe2(register: Register) -> None:
    token = register(double, twice)
    both = ["x_grad", "w_grad"]
    forms: list[tuple[dict[str, Any], list[str], list[str | None], list[str], list[str]]] = [
        ({}, ["y"], ["y_grad"], ["x", "w", "y", "y_grad"], both),
        ({"grad_output_indices": [1]}, ["y", "z"], [None, "z_grad"], ["x", "w", "y", "z", "z_grad"], both),
        ({"grad_input_indices": [1]}, ["y"], ["y_grad"], ["x", "w", "y", "y_grad"], ["w_grad"]),
    ]
    for arguments, outputs, given, inputs, grads in forms:
        for type in ("Python", "PythonDLPack"):
            op = operator_def(type, ["x", "w"], outputs, token=token, **arguments)
            (made,), _ = gradient_for_op(find_schema(type).view(op), given)
            assert (made.type, list(made.input)) == (f"{type}Gradient", inputs)
            assert list(made.output) == grads
            assert [argument.name for argument in made.arg] == [argument.name for argument in op.arg]
            assert made.is_gradient_op


def test_the_backward_pass_goes_through(register: Register) -> None:
    workspace = Workspace()
    workspace.feed("x", X)
    net = [
        operator_def("Python", ["x"], ["y"], token=register(double, twice)),
        operator_def("SumElements", ["y"], ["s"]),
    ]
    emitted, gradients = backward_pass(net, {"s": None})
    for op in (*net, *emitted):
        workspace.run_operator(op)
    np.testing.assert_allclose(workspace.fetch(str(gradients["x"])), 2 * np.ones_like(X), rtol=1e-6)


def test_dlpack(register: Register) -> None:
    """Memory goes out and comes in; torch is not needed for it."""

    def triple(inputs: list[DLPackTensor], outputs: list[DLPackTensor]) -> None:
        x = Tensor.from_dlpack(Capsule(inputs[0].data))
        outputs[0]._reshape(inputs[0]._shape)  # pyright: ignore[reportPrivateUsage] -- what Caffe2 calls it
        y: Any = np.from_dlpack(Capsule(outputs[0].data))  # NumPy itself only reads what such a capsule shows
        wanted = np.ascontiguousarray(3 * x.numpy())
        ctypes.memmove(y.ctypes.data, wanted.ctypes.data, wanted.nbytes)

    np.testing.assert_array_equal(run_op("PythonDLPack", X, token=register(triple)), 3 * X)
    feeding = register(
        print, lambda inputs, outputs: outputs[0].feed(2 * Tensor.from_dlpack(Capsule(inputs[0].data)).numpy())
    )
    np.testing.assert_array_equal(run_op("PythonDLPackGradient", X, token=feeding), 2 * X)
    with pytest.raises(ArgumentError, match="a list is no DLPack capsule"):
        run_op("PythonDLPack", X, token=register(lambda inputs, outputs: outputs[0].feed([1.0])))


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", ["Python", "PythonGradient", "PythonDLPack", "PythonDLPackGradient"])
def test_functions_are_registered_here_or_not_at_all(type: str, register: Register) -> None:
    with pytest.raises(NotFoundError, match=f"{type}: no function of this process is registered as 'nowhere'"):
        run_op(type, X, token="nowhere")
    with pytest.raises(ArgumentError, match=f"{type}: the argument 'token' is missing"):
        run_op(type, X)
    with pytest.raises(DTypeError, match=f"{type}: X = 'in0' is a std::string, not a Tensor"):
        run_op(type, "text", token=register(double, twice))
    token = register(double)
    if type.endswith("Gradient"):
        with pytest.raises(NotFoundError, match="was registered without a gradient"):
            run_op(type, X, token=token)
    with pytest.raises(DuplicateError, match=f"the token '{token}' stands for a function already"):
        register_python(double, token=token)


@pytest.mark.parametrize("type", ["Python", "PythonDLPack"])
@pytest.mark.parametrize("argument", ["pickled_builder", "pickled_grad_builder"])
def test_nothing_is_unpickled(type: str, argument: str, tmp_path: Path) -> None:
    """Not even where the caller trusts the file: what stands in it is code of somebody else."""
    op = OperatorDef(type=type, input=["x"], output=["y"])
    op.arg.add(name=argument, s=b"cos\nsystem\n(S'touch touched'\ntR.")
    net = NetDef(name="n", op=[op], external_input=["x"], external_output=["y"])
    init = NetDef(name="init", op=[operator_def("ConstantFill", [], ["w"], shape=[1])])
    for message, name in ((init, "init_net.pb"), (net, "predict_net.pb")):
        write_message(tmp_path / name, message)
    for trust in (False, True):
        with pytest.raises(TazzaError) as caught:
            load(tmp_path / "init_net.pb", tmp_path / "predict_net.pb", trust=trust).run(x=X)
        assert isinstance(caught.value, TrustError)
    with pytest.raises(TrustError, match="a pickled function is not loaded"):
        Workspace().run_operator(op)
    assert not (tmp_path / "touched").exists()
    assert not Path("touched").exists()


def test_nets_of_strangers_do_not_call_functions(register: Register) -> None:
    net = NetDef(name="n", external_input=["x"], external_output=["y"])
    net.op.append(operator_def("Python", ["x"], ["y"], token=register(double)))
    init = NetDef(name="init", op=[operator_def("ConstantFill", [], ["w"], shape=[1])])
    with pytest.raises(TrustError, match="is Python, which does more than"):
        load(init, net)
    with load(init, net, trust=True) as predictor:
        np.testing.assert_array_equal(predictor.run(x=X)["y"], 2 * X)
