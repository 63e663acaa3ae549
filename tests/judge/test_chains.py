"""Chains of operators as nets, by the judge; and that the judge would see what it is there for."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from tazza.engines.onednn import narrow
from tazza.engines.onednn.epilogue import Epilogue
from tazza.engines.onednn.library import unavailable
from tazza.graph.backward import backward_pass
from tazza.operator import SCHEMAS, formulas_of, operator_def
from tazza.operator.gradient import GradientRule
from tazza.proto import OperatorDef
from tazza.tensor import DataType
from tests.judge.chains import Chain, draw_chain
from tests.judge.draw import draw, drawable
from tests.judge.hand import Array
from tests.judge.outcome import Verdict
from tests.judge.trial import Session, Way, judge, judge_chain, results_of

HAS_NARROW = unavailable() is None and narrow.multiplies("bf16")
needs_narrow = pytest.mark.skipif(not HAS_NARROW, reason="the processor has no products of bfloat16")
PLAN, NARROW_PLAN = Way("plan"), Way("plan", "bf16")


def shown(found: Sequence[object]) -> str:
    """Return mismatches as text."""
    return "\n".join(map(str, found))


@pytest.mark.slow
@pytest.mark.parametrize("fpmath", ["", "bf16"])
def test_some_chains(fpmath: str) -> None:
    assert not _wrong(range(4), fpmath)


@pytest.mark.slow
@pytest.mark.parametrize("fpmath", ["", "bf16"])
def test_more_chains(fpmath: str, soak: int) -> None:
    """More of them with `--soak`; `make judge` draws a thousand."""
    assert not _wrong(range(4, 8 if soak == 1 else 16), fpmath)


def _wrong(seeds: Iterable[int], fpmath: str) -> list[str]:
    outcomes = [one for seed in seeds for one in judge_chain(seed, fpmath)]
    assert len(outcomes) >= 2 * len(list(seeds))
    assert sum(one.verdict is Verdict.UNDECIDED for one in outcomes) <= 0.1 * len(outcomes)
    return [f"{one.again} {one.engine} {one.net}: {one.text}" for one in outcomes if one.verdict is Verdict.MISMATCH]


@pytest.mark.slow
def test_a_chain_is_drawn_again() -> None:
    assert str(draw_chain(5)) == str(draw_chain(5))
    assert all(np.array_equal(a, draw_chain(5).fed[name]) for name, a in draw_chain(5).fed.items())


# -- laws that chains are drawn too seldom for -------------------------------------------------------------------------


def chain(ops: Sequence[OperatorDef], fed: Mapping[str, Array], output: str, *, backward: bool = False) -> Chain:
    """Return a chain of given operators; with `backward` the gradient of all that is fed is compared as well."""
    made = Chain(0, list(ops), fed=dict(fed), outputs=[output])
    if backward:
        made.backward, gradients = backward_pass(ops, [output])
        made.outputs += [name for blob, name in gradients.items() if blob in fed and isinstance(name, str)]
    return made


def convolved(rng: np.random.Generator, channels: int = 24, *, inner: int = 19) -> dict[str, Array]:
    """Return x, and W and b of a convolution that gives numbers around 0, 3 in size."""
    sizes = {"x": (2, inner, 5, 6), "W": (channels, inner, 3, 3), "b": (channels,)}
    fed = {name: rng.standard_normal(size).astype(np.float32) for name, size in sizes.items()}
    fed["W"] *= 0.25
    return fed


def unary() -> list[str]:
    """Return the operators of one float32 input that have a formula, and a gradient."""
    schemas = [SCHEMAS[type] for type in drawable()]
    return [
        one.type
        for one in schemas
        if one.formulas is not None
        and len(one.inputs) == 1
        and not one.inputs[0].variadic
        and isinstance(one.gradient_rule, GradientRule)
        and len(formulas_of(draw(one.type, 0, dtype=DataType.FLOAT).schema.view(draw(one.type, 0).definition))) == 1
    ]


@pytest.mark.slow
@needs_narrow
def test_gradients_are_cut_where_results_are() -> None:
    """What follows a convolution in bfloat16, whatever its bounds are."""
    wrong: list[object] = []
    for type in unary():
        for seed in range(1):
            rng = np.random.default_rng([seed, zlib.crc32(type.encode())])
            drawn = draw(type, seed, dtype=DataType.FLOAT).definition
            follower = OperatorDef(type=type, arg=drawn.arg, input=["c"], output=["y"])
            ops = [operator_def("Conv", ["x", "W", "b"], ["c"], kernel=3, pad=1), follower]
            fed = convolved(rng)
            try:
                made = chain(ops, fed, "y", backward=True)
                sane = _is_sane(Session(made))
            except (ValueError, AssertionError):
                continue
            if sane:
                wrong += [f"{follower.type} {drawn.arg}: {one.what}" for one in judge(made, [NARROW_PLAN])]
    assert not wrong, shown(wrong)


def _is_sane(session: Session) -> bool:
    """Whether all results are finite, and none lies near a pole."""
    return all(bool((np.abs(one.exact) < 100).all()) for one in session.reaches(0, 0)[0].values())


EPILOGUES = ("relu(y + s0)", "min(max(y * s0, -0.7), 0.7)", "min(max(y + s0, -0.5), 0.5)", "max(y * s0, s0)")


@pytest.mark.slow
@pytest.mark.parametrize("fpmath", ["", pytest.param("bf16", marks=needs_narrow)])
@pytest.mark.parametrize("first", ["Sigmoid", "Conv"])
@pytest.mark.parametrize("channels", [19, 32])
def test_over_an_operand(channels: int, first: str, fpmath: str) -> None:
    """Whatever lies how: what a fused layer overwrites is read, and lies afterwards, as the kernel says."""
    fed = convolved(np.random.default_rng(7), channels, inner=channels)
    fed["V"] = fed["W"][..., ::-1].copy()
    convolution = operator_def("Conv", ["x", "W", "b"], ["s"], kernel=3, pad=1)
    before = [operator_def("Sigmoid", ["x"], ["s"]) if first == "Sigmoid" else convolution]
    wrong: list[str] = []
    for epilogue in EPILOGUES:
        words: dict[str, Any] = {"kernel": 3, "pad": 1, "operands": 1, "epilogue": epilogue}
        ops = [
            *before,
            operator_def("FusedConv", ["x", "V", "b", "s"], ["s"], **words),
            operator_def("MaxPool", ["s"], ["y"], kernel=2),
        ]
        for type in ("plan", "simple"):
            wrong += [f"{epilogue} {one.way} {one.what}" for one in judge(chain(ops, fed, "y"), [Way(type, fpmath)])]
    assert not wrong, shown(wrong)


# -- the judge itself --------------------------------------------------------------------------------------------------


def _keeps_nothing(steps: object, dtype: object) -> bool:
    del steps, dtype
    return False


@pytest.mark.slow
@needs_narrow
def test_the_judge_sees_a_bound_that_is_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Epilogue, "keeps_whole", _keeps_nothing)
    ops = [operator_def("Conv", ["x", "W", "b"], ["c"], kernel=3, pad=1), operator_def("Clip", ["c"], ["y"], max=0.7)]
    found = judge(chain(ops, convolved(np.random.default_rng(3)), "y", backward=True), [NARROW_PLAN])
    assert "_grad" in shown(found)


def steered(chain: Chain, way: Way) -> Iterator[tuple[str, Array, Session]]:
    """Yield each float result of a first run that has more than one number."""
    session = Session(chain, narrow=way.fpmath == "bf16")
    _, _, blobs = next(iter(results_of(chain, way, session.feeds)))
    for name, array in blobs.items():
        if array.dtype == np.float32 and array.ndim > 1 and array.shape[1] > 1 and np.count_nonzero(array) > 1:
            yield name, array, session


@pytest.mark.slow
@pytest.mark.parametrize(("fpmath", "error"), [("", 1e-3), pytest.param("bf16", 0.5, marks=needs_narrow)])
def test_the_judge_sees_one_wrong_channel(fpmath: str, error: float) -> None:
    """Nearly always: where results hang on rounding, nobody could."""
    seen = total = 0
    for seed in range(8):
        for name, array, session in steered(draw_chain(seed), Way("simple", fpmath)):
            wrong = array.copy()
            worst = int(np.argmax(np.abs(array).max(axis=tuple(k for k in range(array.ndim) if k != 1))))
            wrong[:, worst] *= 1 + error
            last = session.reaches(0, 1)[0][name]
            total += 1
            seen += last.excess(wrong) > 1
            assert last.excess(array) <= 1
    assert total > 10
    assert seen >= 0.85 * total, f"{seen} of {total}"


@pytest.mark.slow
def test_taps_that_meet_nothing_but_the_border() -> None:
    """The gradient of their weights is 0; what tiles leave there is rounding of all others."""
    op = operator_def("Conv2DGradient", ["X", "W", "dY_given"], ["dW", "db", "dX"], kernel=5, pad=2)
    rng = np.random.default_rng(0)
    shapes = {"X": (4, 8, 1, 1), "W": (66, 8, 5, 5), "dY_given": (4, 66, 1, 1)}
    fed = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    chain = Chain(0, [], [op], fed, ["dW", "dX"])
    assert judge(chain, [Way("simple", engine=engine) for engine in ("onednn", "native/winograd")]) == []
