"""Sequences of unlike lengths in one batch: each gives what it gives alone, forward and backward, with every cell.

Law, for a batch (T, N, D) and lengths 0 <= L[n] <= T: steps before L[n] are those of sequence n alone, in a batch of
one with L[n] steps and no lengths; steps behind are its last state, or 0 where ended states are dropped. Gradients of
its inputs, initial states and of what an encoder left are those of it alone, and 0 behind its end; those of parameters
are the sum over sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from caffe2.python import core, gru_cell, model_helper, rnn_cell, workspace
from caffe2.python.attention import AttentionType
from tazza.errors import GradientError

Array = NDArray[Any]
LENGTHS = (3, 0, 5, 1, 4)
T, N, D, H, E, L = 5, len(LENGTHS), 3, 4, 2, 6
"""Steps, sequences, elements of an input, of a state, of what an encoder left, and its steps."""
ENCODED = (6, 4, 1, 5, 2)
"""How many of these each sequence may look at."""


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers around 0."""
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32)


@dataclass(frozen=True)
class Kind:
    """A cell by a function `make()`, of which one state of H elements, or two, begin with what is fed.

    `drops` says that states of sequences that have ended are 0. With `attends` there is an encoder, and a context as
    the last state; that goes on behind the end, so that only steps before it count.
    """

    make: Callable[[], Any]
    states: int = 2
    drops: bool = False
    attends: bool = False
    given: tuple[int, ...] = (0,)
    """What the output is made of, of all states over time and the last ones in turn."""
    trains: bool = True
    """Whether it has gradients where there are lengths; in Caffe2 the basic cell has none."""


def unit(cell: Any, **given: Any) -> Callable[[], Any]:
    """Return what makes a cell."""
    return lambda: cell(input_size=D, hidden_size=H, forget_bias=0.5, memory_optimization=False, name="cell", **given)


def stacked() -> Any:
    """Return two cells, the second with its input added to what it puts out."""
    sizes = ((D, H), (H, H))
    cells = [rnn_cell.LSTMCell(size, out, 0.5, False, name=f"of_{i}") for i, (size, out) in enumerate(sizes)]
    return rnn_cell.MultiRNNCell(cells, [1], name="cell")


def attending(kind: int) -> Callable[[], Any]:
    """Return what makes a cell with attention."""
    ends = core.BlobReference("ends")
    return lambda: rnn_cell.LSTMWithAttentionCell(E, "encoded", ends, D, H, "cell", kind, None, 0.5, False, False)


KINDS = {
    "basic": Kind(unit(rnn_cell.BasicRNNCell, activation="tanh"), 1, trains=False),
    "basic, dropped": Kind(
        unit(rnn_cell.BasicRNNCell, activation="tanh", drop_states=True), 1, drops=True, trains=False
    ),
    "LSTM": Kind(unit(rnn_cell.LSTMCell)),
    "LSTM, dropped": Kind(unit(rnn_cell.LSTMCell, drop_states=True), drops=True),
    "LSTM, gates made again": Kind(lambda: rnn_cell.LSTMCell(D, H, 0.5, True, name="cell")),
    "layer-normed": Kind(unit(rnn_cell.LayerNormLSTMCell)),
    "multiplicative": Kind(unit(rnn_cell.MILSTMCell)),
    "both": Kind(unit(rnn_cell.LayerNormMILSTMCell)),
    "both, dropped": Kind(unit(rnn_cell.LayerNormMILSTMCell, drop_states=True), drops=True),
    "gated": Kind(unit(gru_cell.GRUCell), 1),
    "gated, dropped": Kind(unit(gru_cell.GRUCell, drop_states=True), 1, drops=True),
    "gated behind": Kind(unit(gru_cell.GRUCell, linear_before_reset=True), 1),
    "dropout": Kind(lambda: rnn_cell.DropoutCell(unit(rnn_cell.LSTMCell)(), 0.5, is_test=True, name="cell")),
    "stacked": Kind(stacked, 4, given=(0, 4)),
    "unrolled": Kind(unit(rnn_cell.LSTMCell)),
    "Regular": Kind(attending(AttentionType.Regular), attends=True, given=(0, 4)),
    "Recurrent": Kind(attending(AttentionType.Recurrent), attends=True, given=(0, 4)),
    "Dot": Kind(attending(AttentionType.Dot), attends=True, given=(0, 4)),
}


def fed(kind: Kind, sequences: list[int], steps: int) -> dict[str, Array]:
    """Return what is fed for some sequences, so many steps of it."""
    found = {"x": values(T, N, D)[:steps, sequences]}
    found |= {f"s{i}": values(1, N, H, seed=i + 1)[:, sequences] for i in range(kind.states)}
    if kind.attends:
        found |= {"context": values(1, N, E, seed=8)[:, sequences], "encoded": values(L, N, E, seed=9)[:, sequences]}
        found["ends"] = np.array(ENCODED, np.int32)[sequences]
    return {name: np.ascontiguousarray(value) for name, value in found.items()}


def run(name: str, feeds: dict[str, Array], weights: Array, lengths: Array | None) -> dict[str, Array]:
    """Return what the cell puts out, its last states, and gradients, where each element counts by a weight."""
    workspace.ResetWorkspace()
    kind = KINDS[name]
    cell = kind.make()
    cell.forward_only = not kind.trains
    if name == "unrolled":
        cell = rnn_cell.UnrolledCell(cell, len(weights))
    model = model_helper.ModelHelper(name="ragged")
    feeds = {**feeds, "weights": weights, **({} if lengths is None else {"lengths": lengths})}
    model.net.AddExternalInputs(*feeds)
    begun = [core.BlobReference(each) for each in feeds if each[0] == "s" or each == "context"]
    ends = None if lengths is None else core.BlobReference("lengths")
    output, states = cell.apply_over_sequence(model, "x", ends, begun, kind.given)
    loss = model.net.SumElements(model.net.Mul([output, "weights"]), "loss")
    gradients = model.AddGradientOperators([loss]) if kind.trains else {}
    workspace.RunNetOnce(model.param_init_net)
    for place, blob in enumerate(sorted(str(blob) for blob in model.params if "timestep" not in str(blob))):
        workspace.FeedBlob(blob, values(*workspace.FetchBlob(blob).shape, seed=place))
    for blob, value in feeds.items():
        workspace.FeedBlob(blob, value)
    workspace.RunNetOnce(model.net)
    shown = {"output": workspace.FetchBlob(output)}
    shown |= {f"last {i}": workspace.FetchBlob(blob) for i, blob in enumerate(states[1::2])}
    wanted = {*feeds, *map(str, model.params)} - {"weights"}
    return shown | {f"d{blob}": workspace.FetchBlob(made) for blob, made in gradients.items() if str(blob) in wanted}


def concerns(kind: Kind, weights: Array, n: int) -> Array:
    """Return the weights of a sequence alone: what stands behind its end is its last step once more, or 0."""
    own = weights[:, [n]].copy()
    if not kind.drops and 0 < LENGTHS[n]:
        own[LENGTHS[n] - 1] += own[LENGTHS[n] :].sum(axis=0)
    return np.ascontiguousarray(own[: LENGTHS[n]])


def test_all_cells_are_judged() -> None:
    def below(cell: Any) -> set[Any]:
        return {cell}.union(*(below(each) for each in cell.__subclasses__()))

    seen: set[Any] = {rnn_cell.UnrolledCell}
    for kind in KINDS.values():
        seen.update(type(kind.make()).__mro__)
    # That one cannot be given lengths of an encoder's steps, and its unit is judged above.
    ours = {cell for cell in below(rnn_cell.RNNCell) if cell.__module__.startswith("caffe2.")}
    assert ours - seen == {rnn_cell.MILSTMWithAttentionCell}


FAST = ("basic", "LSTM", "both, dropped", "gated")


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in KINDS])
def test_each_sequence_gives_what_it_gives_alone(name: str) -> None:
    kind = KINDS[name]
    width = H + E if kind.attends else H
    weights = values(T, N, width, seed=7)
    if kind.attends:
        weights[np.arange(T)[:, None] >= np.array(LENGTHS)] = 0
    together = run(name, fed(kind, list(range(N)), T), weights, np.array(LENGTHS, np.int32))
    sums: dict[str, Array] = {}
    for n, length in enumerate(LENGTHS):
        if not length:
            continue
        alone = run(name, fed(kind, [n], length), concerns(kind, weights, n), None)
        _check(kind, together, alone, n)
        for blob in (blob for blob in alone if blob.startswith("dcell/")):
            sums[blob] = sums.get(blob, np.float32(0)) + alone[blob]
    assert bool(sums) == kind.trains
    for blob, value in sums.items():
        np.testing.assert_allclose(together[blob], value, rtol=1e-4, atol=1e-5, err_msg=blob)
    _check_empty(kind, together, weights, LENGTHS.index(0))


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.trains])
def test_what_has_no_gradient_says_so(name: str) -> None:
    model = model_helper.ModelHelper(name="refused")
    model.net.AddExternalInputs("x", "s0", "lengths")
    cell, states = KINDS[name].make(), [core.BlobReference("s0")]
    with pytest.raises(GradientError):
        cell.apply_over_sequence(model, "x", core.BlobReference("lengths"), states, [0])


def _check(kind: Kind, together: dict[str, Array], alone: dict[str, Array], n: int) -> None:
    """Compare a sequence in the batch with itself alone."""
    length = LENGTHS[n]
    assert_close(together["output"][:length, [n]], alone["output"], f"output of {n}")
    if not kind.attends:
        behind = together["output"][length:, n]
        assert_close(behind, np.broadcast_to(0 if kind.drops else alone["output"][-1, 0], behind.shape), f"end of {n}")
    for i in range(kind.states):
        dropped = kind.drops and length < T
        assert_close(together[f"last {i}"][:, [n]], (not dropped) * alone[f"last {i}"], f"last {i} of {n}")
    if kind.trains:
        assert_close(together["dx"][:length, [n]], alone["dx"], f"dx of {n}")
        assert not together["dx"][length:, n].any()
    for blob in (blob for blob in alone if blob[:2] == "ds" or blob in ("dcontext", "dencoded")):
        assert_close(together[blob][:, [n]], alone[blob], f"{blob} of {n}")


def _check_empty(kind: Kind, together: dict[str, Array], weights: Array, n: int) -> None:
    """A sequence without steps keeps its initial states, or has none."""
    for i in range(kind.states):
        begun = values(1, N, H, seed=i + 1)[0, n]
        assert_close(together[f"last {i}"][0, n], (not kind.drops) * begun, f"last {i} of {n}")
    if kind.trains:
        assert not together["dx"][:, n].any()
        given = (not kind.drops) * weights[:, n, :H].sum(axis=0)
        assert_close(together["ds0"][0, n], given, f"ds0 of {n}")


def assert_close(found: Array, wanted: Any, what: str) -> None:
    """Assert that numbers are equal, to rounding."""
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=what)
