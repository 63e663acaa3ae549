"""Programs that time LSTMs: all ways compute, and what needs a GPU says so."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

import pytest

from caffe2.python import lstm_benchmark, workspace
from caffe2.python.rnn import lstm_comparison
from tazza.errors import TazzaError, UnavailableError

ENTRIES = 5
"""Of which the first only warms up."""


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def arguments(*words: str) -> Namespace:
    """Return what a program reads, for small nets."""
    args = lstm_benchmark.GetArgumentParser().parse_args(words)
    args.seq_length, args.batch_size, args.input_dim, args.hidden_dim, args.iters_to_report = 3, 4, 2, 5, 3
    args.data_size = ENTRIES * args.seq_length * args.batch_size
    return args


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--forward_only", "--num_layers", "2", "--rnn_executor", "--rnn_executor_num_threads", "2"),
        ("--fixed_shape", "--implementation", "static", "--memory_optimization"),
        ("--fixed_shape", "--implementation", "static_dag", "--forward_only"),
    ],
)
def test_all_entries_are_taken_from_the_queue(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []
    run = workspace.RunNet

    def counted(name: Any, num_iter: int = 1) -> Any:
        runs.append(num_iter)
        return run(name, num_iter)

    monkeypatch.setattr(workspace, "RunNet", counted)
    assert lstm_benchmark.Caffe2LSTM(arguments(*words)) > 0
    assert runs == [1, 3, 1]
    assert workspace.FetchBlob("loss") > 0


def test_entries_have_as_many_steps_as_labels() -> None:
    for fixed in (False, True):
        queue, labels, counts = lstm_benchmark.generate_data(6, [5, 3, 2], 7, fixed)
        assert len(counts) == 6
        assert all(count % 3 == 0 and 0 < count <= 15 for count in counts)
        assert not fixed or set(counts) == {15}
        for count in counts:
            for blob, name in ((queue, "entry"), (labels, "label")):
                workspace.RunOperatorOnce(lstm_benchmark.core.CreateOperator("DequeueBlobs", [blob], [name]))
            assert workspace.FetchBlob("entry").shape == (count // 3, 3, 2)
            assert workspace.FetchBlob("label").shape == (count // 3,)
            assert workspace.FetchBlob("label").max() < 7 * 3


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(AssertionError, match="not static"):
        lstm_benchmark.Caffe2LSTM(arguments("--implementation", "static"))
    with pytest.raises(AssertionError, match="Unknown implementation other"):
        lstm_benchmark.Caffe2LSTM(arguments("--implementation", "other"))
    with pytest.raises(UnavailableError, match="GPUs alone"):
        lstm_benchmark.Caffe2LSTM(arguments("--implementation", "cudnn"))


def test_a_comparison_times_both_for_all_extents(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    timed: list[tuple[Any, ...]] = []

    def took(args: Any) -> float:
        timed.append((args.implementation, args.batch_size, args.seq_length, args.hidden_dim, args.data_size))
        return 2.0 if args.implementation == "own" else 3.0

    monkeypatch.setattr(lstm_benchmark, "Benchmark", took)
    lstm_comparison.Compare(arguments())
    assert timed[:3] == [("own", 64, 20, 40, 1280000), ("cudnn", 64, 20, 40, 1280000), ("own", 64, 20, 100, 1280000)]
    assert len(timed) == 2 * 3 * 2 * 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "t_cudnn / t_own: 1.5"
    assert lines[-2].startswith("hidden_dim: 800, seq_lengths: 100, batch_size: 256, num_layers: 1: cudnn time: 3.0")
    assert lines[-1] == "Ratio average: 1.5"


def test_a_comparison_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lstm_benchmark, "Benchmark", lstm_benchmark.Caffe2LSTM)  # without a debugger
    monkeypatch.setattr(lstm_comparison, "ITERATIONS", 2)
    with pytest.raises(TazzaError):
        lstm_comparison.Compare(arguments())
