"""Which problems the gradients are, and where dW comes from when other engines offer it too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.device import current_context
from tazza.engines.native.winograd.conv import ENABLED
from tazza.engines.native.winograd.conv_gradient import others_weights, prepare_conv_gradient, transposed
from tazza.engines.native.winograd.tiling import Problem, best_tiling
from tazza.operator import LaidOut, LaunchChain, OpView, Unsupported, find_schema, operator_def
from tazza.operator.engine import why_unavailable
from tazza.operator.kernel import Answer
from tazza.proto import OperatorDef
from tazza.runtime.threads import thread_count
from tazza.tensor import CPUPlace, DataType, Opaque, TensorSpec, channels_last
from tazza.tensor.offer import Offer

ENGINE = "native/winograd"
pytestmark = pytest.mark.skipif(
    why_unavailable("ConvGradient", "cpu", ENGINE) is not None, reason="nothing can be compiled here"
)

X, W, dY = (TensorSpec(dims, DataType.FLOAT) for dims in ((2, 20, 9, 11), (40, 20, 3, 3), (2, 40, 9, 11)))
b = TensorSpec((40,), DataType.FLOAT)


def gradient(engine: str = "", outputs: tuple[str, ...] = ("dW", "db", "dX")) -> OperatorDef:
    no = int("dX" not in outputs)
    names = ["X", "W", "dY"], list(outputs)
    return operator_def("ConvGradient", *names, kernel=3, pad=1, no_gradient_to_input=no, engine=engine)


def view(definition: OperatorDef) -> OpView:
    return find_schema("ConvGradient").view(definition)


def answer(definition: OperatorDef, *outputs: TensorSpec) -> Offer[Callable[[], Answer]]:
    found = prepare_conv_gradient(view(definition), current_context(CPUPlace()), (X, W, dY), outputs)
    assert isinstance(found, Offer)
    return found


@given(st.integers(1, 5), st.integers(1, 9), st.integers(1, 9), st.sampled_from([3, 5]), st.integers(0, 2))
def test_the_gradient_of_the_gradient_is_the_convolution(N: int, C: int, K: int, r: int, pad: int) -> None:
    problem = Problem(N, C, K, r, (12, 15), (13 - r + 2 * pad, 16 - r + pad), (pad, 0))
    assert transposed(transposed(problem)) == problem
    back = transposed(problem)
    assert (back.C, back.K, back.image, back.out) == (K, C, problem.out, problem.image)
    assert back.pads == (r - 1 - pad, r - 1)


@pytest.mark.slow
def test_all_gradients_in_one_chain() -> None:
    """For dX turned filters are read; dY lies in one way for both."""
    found = answer(gradient(ENGINE), W, b, X).run()
    assert isinstance(found, LaidOut)
    assert isinstance(found.launch, LaunchChain)
    last = channels_last(dY.shape)
    assert found.layouts["dY"] == last
    form = found.layouts["W"]
    assert isinstance(form, Opaque)
    assert form.descriptor.turned
    assert (form.descriptor.C, form.descriptor.K) == (40, 20)


def test_filters_alone() -> None:
    offer = answer(gradient(ENGINE, ("dW", "db")), W, b)
    assert offer.estimate_ns is not None
    found = offer.run()
    assert isinstance(found, LaidOut)
    assert set(found.layouts) == {"X", "dY", "dW"}


def test_the_image_costs_more() -> None:
    """By the time of the convolution from dY to dX, whoever computes dW."""
    both = answer(gradient(), W, b, X).estimate_ns
    problem = Problem(2, 20, 40, 3, (9, 11), (9, 11), (1, 1))
    assert both is not None
    assert both > best_tiling(transposed(problem), thread_count()).estimate_ns


def test_others_are_asked_for_the_filters_alone() -> None:
    """They see dY as this engine wants it for dX; there is an offer where one of them says how long it takes."""
    lying = replace(dY, layout=channels_last(dY.shape))
    found = others_weights(view(gradient()), current_context(CPUPlace()), [X, W, lying], (W, b, X))
    if found is None:
        pytest.skip("no other engine offers it")
    assert "dX" not in found.run().layouts


def test_what_is_refused() -> None:
    context = current_context(CPUPlace())
    double = replace(X, dtype=DataType.DOUBLE)
    with pytest.raises(Unsupported):
        prepare_conv_gradient(view(gradient()), context, (double, W, dY), (W, b, double))
    with ENABLED.override(False):
        with pytest.raises(Unsupported, match=r"^the flag winograd is off$"):
            prepare_conv_gradient(view(gradient()), context, (X, W, dY), (W, b, X))
        asked = prepare_conv_gradient(view(gradient(ENGINE)), context, (X, W, dY), (W, b, X))
        assert isinstance(asked, Offer), "who names the engine gets it"
    strided = operator_def("ConvGradient", ["X", "W", "dY"], ["dW", "db", "dX"], kernel=3, stride=2)
    with pytest.raises(Unsupported, match=r"^it takes two dimensions, stride 1, dilation 1 and one group$"):
        prepare_conv_gradient(view(strided), context, (X, W, TensorSpec((2, 40, 4, 5), DataType.FLOAT)), (W, b, X))
