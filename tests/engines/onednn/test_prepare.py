"""What every kernel on oneDNN is spared: blobs that are no tensors or hold nothing, refusals, operands in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tazza.device import current_context
from tazza.engines.onednn import prepare
from tazza.engines.onednn.descriptor import accepts_dense
from tazza.engines.onednn.launch import ZeroLaunch
from tazza.engines.onednn.library import Unimplemented, unavailable
from tazza.engines.onednn.prepare import Answer, name_specs, onednn, wished
from tazza.operator import LaidOut, OpSchema, OpView, Spec, Unsupported, find_schema, kernel_key, operator_def
from tazza.operator.choice import EPILOGUES
from tazza.operator.kernel import Offered
from tazza.tensor import ROW_MAJOR, CPUPlace, DataType, Opaque, Tensor, TensorSpec, TypeSpec, channels_last
from tazza.tensor.expression import Expression
from tazza.tensor.offer import Offer, answered
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Specs = dict[str, TensorSpec]
DONE = ZeroLaunch(("Y",))


def spec(*dims: int, **more: Any) -> TensorSpec:
    return TensorSpec(dims, DataType.FLOAT, **more)


class Kernel:
    """Kernels that are registered here and nowhere else, with what they were shown."""

    def __init__(self) -> None:
        self.registered: dict[str, tuple[Any, dict[str, Any]]] = {}
        self.seen: list[Specs] = []

    def launcher(self, schema: OpSchema, **options: Any) -> Callable[[Any], Any]:
        def decorate(made: Any) -> Any:
            self.registered[schema.type] = made, options
            return made

        return decorate

    def ask(
        self, type: str, names: tuple[list[str], list[str]], specs: tuple[Sequence[Spec], Sequence[Spec]]
    ) -> Offered | Unsupported:
        op = find_schema(type).view(operator_def(type, *names))
        return answered(lambda: self.registered[type][0](op, current_context(CPUPlace()), *specs))


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(prepare, "launcher", made.launcher)
    return made


def reason(answer: object) -> str:
    assert isinstance(answer, Unsupported)
    return answer.reason


def registered(kernel: Kernel, type: str, answer: Answer | Exception = DONE, **options: Any) -> None:
    """Register what notes its specs and gives the answer."""

    @onednn(find_schema(type), **options)
    def translate(op: OpView, specs: Specs) -> Answer:
        del op
        kernel.seen.append(specs)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert translate.__name__ == "translate", "the function itself can still be called"


# -- specs by letter ---------------------------------------------------------------------------------------------------


def test_specs_have_the_names_of_their_letters(kernel: Kernel) -> None:
    registered(kernel, "Concat")
    shapes = [spec(2, 3), spec(2, 5), spec(2, 7)]
    assert kernel.ask("Concat", (["a", "b"], ["c", "d"]), (shapes[:2], [shapes[2], spec(2)])) == DONE
    assert list(kernel.seen[0]) == ["X0", "X1", *find_schema("Concat").view(_concat()).output_letters]
    assert kernel.seen[0]["X1"] == shapes[1]


def _concat() -> Any:
    return operator_def("Concat", ["a", "b"], ["c", "d"])


def test_absent_blobs_have_no_spec() -> None:
    op = find_schema("Conv").view(operator_def("Conv", ["X", "W"], ["Y"], kernel=1))
    found = name_specs(op, [spec(2, 3, 5, 7), spec(4, 3, 1, 1)], [spec(2, 4, 5, 7)])
    assert isinstance(found, dict)
    assert list(found) == ["X", "W", "Y"]


@pytest.mark.parametrize("other", [TypeSpec("Mutex"), TensorSpec((2, None), DataType.FLOAT)], ids=["kind", "shape"])
def test_blobs_that_hold_no_tensor_of_known_shape(kernel: Kernel, other: Spec) -> None:
    registered(kernel, "Relu")
    text = reason(kernel.ask("Relu", (["x"], ["y"]), ([other], [spec(2, 3)])))
    assert text == f"X is {other}: not a tensor of known shape"
    assert kernel.seen == []


# -- what a kernel answers ---------------------------------------------------------------------------------------------


def test_what_onednn_lacks_is_a_reason(kernel: Kernel) -> None:
    registered(kernel, "Relu", Unimplemented("oneDNN has no such thing"))
    assert reason(kernel.ask("Relu", (["x"], ["y"]), ([spec(2, 3)], [spec(2, 3)]))) == "oneDNN has no such thing"


def test_an_estimate_makes_an_offer_that_asks_nothing(kernel: Kernel) -> None:
    def estimate_ns(op: OpView, specs: Specs) -> float:
        return 1.5 * specs["X"].size

    registered(kernel, "Relu", estimate_ns=estimate_ns)
    offer = kernel.ask("Relu", (["x"], ["y"]), ([spec(2, 3)], [spec(2, 3)]))
    assert isinstance(offer, Offer)
    assert offer.estimate_ns == 9
    assert kernel.seen == []
    assert offer.run() == DONE
    assert len(kernel.seen) == 1


def test_how_a_kernel_is_registered(kernel: Kernel) -> None:
    registered(kernel, "Relu", batch_invariant=True)
    made, options = kernel.registered["Relu"]
    assert options == {"engine": "onednn", "accepts": accepts_dense, "batch_invariant": True}
    assert made.__module__ == __name__, "it is told of by the module that has it"


# -- in place ----------------------------------------------------------------------------------------------------------

DIMS = (2, 3, 5, 7)
LAST = channels_last(DIMS)


@pytest.mark.parametrize(
    ("layouts", "taken"),
    [
        ({}, True),
        ({"X": LAST, "Y": LAST}, True),
        ({"Y": LAST}, False),
        ({"X": LAST}, True),
    ],
    ids=["as it lies", "both moved", "the output alone", "read otherwise, written as it lies"],
)
def test_what_overwrites_an_input_lies_as_that(kernel: Kernel, layouts: dict[str, Any], taken: bool) -> None:
    registered(kernel, "Relu", LaidOut(DONE, layouts))
    answer = kernel.ask("Relu", (["x"], ["x"]), ([spec(*DIMS)], [spec(*DIMS)]))
    assert isinstance(answer, LaidOut) is taken
    if not taken:
        assert "Y = 'x' overwrites an input" in reason(answer)
    assert isinstance(kernel.ask("Relu", (["x"], ["y"]), ([spec(*DIMS)], [spec(*DIMS)])), LaidOut)


# -- nothing to compute ------------------------------------------------------------------------------------------------


def test_without_elements_another_engine_is_asked(kernel: Kernel) -> None:
    registered(kernel, "Relu")
    registered(kernel, "FC")
    assert kernel.ask("Relu", (["x"], ["y"]), ([spec(0, 3)], [spec(0, 3)])) == DONE, "there is nothing to write"
    assert kernel.seen == []
    weights = [spec(2, 0), spec(5, 0), spec(5)]
    text = reason(kernel.ask("FC", (["x", "w", "b"], ["y"]), (weights, [spec(2, 5)])))
    assert text.endswith("without elements")
    assert "X is" in text
    assert "W is" in text
    assert "b is" not in text


def test_sums_over_no_images_are_zero(kernel: Kernel) -> None:
    registered(kernel, "FCGradient", empty="zero")
    names = ["x", "w", "dy"], ["dw", "db", "dx"]
    inputs, outputs = [spec(0, 3), spec(5, 3), spec(0, 5)], [spec(5, 3), spec(5), spec(0, 3)]
    answer = kernel.ask("FCGradient", names, (inputs, outputs))
    assert isinstance(answer, ZeroLaunch)
    letters = find_schema("FCGradient").view(operator_def("FCGradient", *names)).output_letters
    assert answer.letters == tuple(letters)
    tensors = {
        letter: Tensor.from_numpy(np.ones(one.shape, np.float32)) for letter, one in zip(letters, outputs, strict=True)
    }
    call_alone(answer, tensors)
    assert not any(one.array.any() for one in tensors.values())


@pytest.mark.parametrize("why", ["no features", "a form of its own"])
def test_sums_that_are_not_zeroed(kernel: Kernel, why: str) -> None:
    """Where inner extents are 0, or an output lies in a form that nobody else can write."""
    registered(kernel, "FCGradient", empty="zero")
    form = Opaque("onednn", "a form", 60)
    dW = spec(5, 3, layout=form if why == "a form of its own" else ROW_MAJOR)
    K = 0 if why == "no features" else 3
    inputs = [spec(0, K), spec(5, K), spec(0, 5)]
    outputs = [dW if K else spec(5, 0), spec(5)]
    text = reason(kernel.ask("FCGradient", (["x", "w", "dy"], ["dw", "db"]), (inputs, outputs)))
    assert text.endswith("without elements")
    assert kernel.seen == []


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_kernels_with_an_epilogue_say_which_they_take(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    judges: dict[Any, Any] = {}

    def register(key: Any, judge: Any, **options: Any) -> None:
        del options
        judges[key] = judge

    monkeypatch.setattr(EPILOGUES, "register", register)
    registered(kernel, "FusedConv")
    registered(kernel, "Conv")
    (judge,) = judges.values()
    assert list(judges) == [kernel_key("FusedConv", "onednn")]
    assert judge(Expression.parse("relu(y + s0)"))
    assert not judge(Expression.parse("y * y"))


def test_wishes() -> None:
    assert wished(spec(*DIMS, layout=LAST))
    assert not wished(spec(*DIMS))
