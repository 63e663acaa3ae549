"""RecurrentNetworkBlobFetcher: copies of what each step left are rows of what the net puts out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import BlobTypeError, TazzaError
from tazza.operator import operator_def
from tazza.proto import NetDef
from tests.check import check_op
from tests.ops.recurrent.recorded import FOLDER, recorded, workspace_with
from tests.recorded_nets import read_recorded
from tests.sequences import Sequence, Step, on_sequences

FETCH = "RecurrentNetworkBlobFetcher"
COPIES = FOLDER.with_name("step_copies")
TIMESTEP = "timestep"
ROWS = np.arange(1, 7, dtype=np.float32).reshape(3, 1, 2)
SUMS = operator_def(
    "RecurrentNetwork",
    ["x", "begin"],
    ["all", "last", "scratch"],
    recurrent_states=["states"],
    initial_recurrent_state_ids=[1],
    link_internal=["row", "before", "after"],
    link_external=["x", "states", "states"],
    link_offset=[0, 0, 1],
    alias_src=["states", "states"],
    alias_dst=["all", "last"],
    alias_offset=[1, -1],
    step_net=NetDef(name="step", op=[operator_def("Add", ["row", "before"], ["after"])]),
    num_workspaces=2,
)
CASES = [
    Sequence(
        "two workspaces for three steps",
        (
            Step(SUMS, {"all": ROWS.cumsum(axis=0)}, {"x": ROWS, "begin": 0 * ROWS[:1]}),
            Step(operator_def(FETCH, ["scratch"], ["names"]), {"rnn_row0": ROWS[2:], "rnn_row1": ROWS[1:2]}),
        ),
    ),
]


@on_sequences(CASES)
def test_copies_have_names_of_their_own(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize(("case", "steps"), [("lstm_text", 4), ("lstm_forward", 4)])
def test_copies_are_what_steps_left(case: str, steps: int) -> None:
    """With a gradient each step has a workspace; without, four serve all in turn, and the last steps' is there."""
    one = recorded(case)
    home = workspace_with(one.fed)
    home.run_net_once(one.net)
    (op,) = [op for op in one.net.op if op.type == "RecurrentNetwork"]
    home.run_operator(operator_def(FETCH, [op.output[-1]], ["names"], prefix="copy"))
    names: list[Any] = [name.decode() for name in home.fetch("names")]
    states = [name for name in names if name.startswith("copy_LSTM/hidden_state")]
    assert states == [f"copy_LSTM/hidden_state{step}" for step in range(steps)]
    over_time = home.fetch(op.output[0])
    for name, step in zip(states, range(len(over_time) - steps, len(over_time)), strict=True):
        np.testing.assert_array_equal(home.fetch(name)[0], over_time[step], err_msg=name)
    assert set(names) <= set(home.blob_names())
    home.feed("LSTM/hidden_state", over_time)
    np.testing.assert_array_equal(home.fetch(states[-1])[0], over_time[-1])


@pytest.mark.parametrize("case", sorted(path.stem for path in COPIES.glob("*.npz")))
def test_copies_are_those_of_caffe2(case: str) -> None:
    """Recorded: of the same steps, under the same names, but for the number of the step, which it renames."""
    one = read_recorded(COPIES / f"{case}.npz")
    home = workspace_with(one.fed)
    home.run_net_once(one.net)
    names, wanted = ({name.decode() for name in source.tolist()} for source in (home.fetch("names"), one.left["names"]))
    assert {name for name in names if TIMESTEP not in name} == {name for name in wanted if TIMESTEP not in name}
    for name in names & wanted:
        np.testing.assert_allclose(home.fetch(name), one.left[name], rtol=1e-5, atol=2e-6, err_msg=name)


def test_another_blob_is_refused() -> None:
    home = workspace_with({"x": np.zeros(2, np.float32)})
    with pytest.raises((BlobTypeError, TazzaError), match="x"):
        home.run_operator(operator_def(FETCH, ["x"], ["names"]))
