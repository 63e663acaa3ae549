"""The programs of `examples` run at a small size, and come to what they promise."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tazza
from examples import autoencoder, ctc_reader, service, wide_clicks
from tazza.models.task import learn

needs_digits = pytest.mark.skipif(find_spec("sklearn") is None, reason="the digits come with scikit-learn")


@needs_digits
@pytest.mark.slow
def test_an_autoencoder_draws_what_it_never_saw() -> None:
    figures = learn(autoencoder.Autoencoder(epochs=12, hidden=128))
    assert 0 < figures["lost_by_components"] < figures["lost"] < 0.4 * figures["lost_by_mean_picture"]


def test_principal_components_of_rows_on_a_line() -> None:
    """Rows that lie on a line lose nothing by one component."""
    along = np.random.default_rng(1).normal(0, 1, (20, 1)).astype(np.float32)
    rows = along * np.linspace(-1, 1, 5, dtype=np.float32) + 3
    assert autoencoder.by_components(rows, rows, 1) < 1e-10


@pytest.mark.slow
def test_both_updates_come_near_to_who_knows_the_weights() -> None:
    whole, by_row = (
        learn(wide_clicks.Clicks(update=update, examples=40_000, rows=2000))
        for update in ("SparseAdagrad", wide_clicks.BY_ROW)
    )
    for figures in (whole, by_row):
        best, mean = figures["log_loss_of_hidden_weights"], figures["log_loss_of_mean_rate"]
        assert best < figures["log_loss"] < best + 0.5 * (mean - best)
    assert abs(whole["log_loss"] - by_row["log_loss"]) < 0.01
    assert whole["bytes_beside_table"] == wide_clicks.WIDTH * by_row["bytes_beside_table"]


def test_a_part_of_a_log() -> None:
    log = wide_clicks.draw(50, 30)
    parts = [log.part(0, 20), log.part(20, 50)]
    np.testing.assert_array_equal(np.concatenate([part.ids for part in parts]), log.ids)
    assert [part.lengths.sum() for part in parts] == [len(part.ids) for part in parts]


@pytest.mark.slow
def test_a_reader_learns_where_digits_stand() -> None:
    assert learn(ctc_reader.Reader(lines=16, tested=60), 330)["wrong_digits"] < 0.6


@pytest.mark.slow
def test_a_reader_takes_lines_and_says_something() -> None:
    assert 0 <= learn(ctc_reader.Reader(lines=4, tested=5), 2)["right_lines"] <= 1


def test_lines_have_the_digits_that_they_say() -> None:
    """Every line has room for its digits, and CTC for its labels."""
    lines = ctc_reader.draw(50, np.random.default_rng(3))
    labels, lengths = lines.labels()
    assert labels.min() >= 1
    assert labels.max() <= 10
    assert lengths.tolist() == [len(text) for text in lines.texts]
    repeats = [sum(a == b for a, b in pairwise(text)) for text in lines.texts]
    assert max(length + more for length, more in zip(lengths.tolist(), repeats, strict=True)) <= ctc_reader.STEPS


# -- a service ---------------------------------------------------------------------------------------------------------

CLASSES = 5


def png(level: int, width: int = 4) -> bytes:
    """Return a grey picture 3 x `width`, as the bytes of its file."""
    from PIL import Image

    file = BytesIO()
    Image.fromarray(np.full((3, width), level, np.uint8)).save(file, format="PNG")
    return file.getvalue()


@pytest.fixture
def served(tmp_path: Path) -> Path:
    """A folder with a net of grey pictures 3 x 4, whose class is a fifth of the range; and labels."""
    from tazza.models import Model

    model, workspace = Model("levels"), tazza.Workspace()
    model.net.add_external_output(model.fc("data", "scores", 12, CLASSES))
    centers = (np.arange(CLASSES) + 0.5) / CLASSES
    workspace.feed("scores_w", np.repeat(centers[:, np.newaxis] / 12, 12, axis=1).astype(np.float32))
    workspace.feed("scores_b", (-(centers**2) / 2).astype(np.float32))
    tazza.save_nets(tmp_path / "init_net.pb", tmp_path / "predict_net.pb", model, workspace)
    (tmp_path / "labels.txt").write_text("black\ndark\nmiddle\nlight\nwhite\n")
    return tmp_path


@pytest.fixture
def running(served: Path) -> Generator[service.Service]:
    with service.Service(served, ("127.0.0.1", 0)) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(port: int, picture: bytes) -> dict[str, Any]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", picture, timeout=60) as answer:
        return json.load(answer)


def test_a_service_answers_many_at_a_time(running: service.Service) -> None:
    levels = [*range(10, 250, 24)] * 3
    with ThreadPoolExecutor(12) as pool:
        told = list(pool.map(ask, [running.server_port] * len(levels), map(png, levels)))
    assert [one["classes"][0]["class"] for one in told] == [level * CLASSES // 256 for level in levels]
    assert told[0]["classes"][0]["label"] == "black"
    assert sum(running.together.batches) == len(levels)


@pytest.mark.parametrize("body", [b"no picture", b"", png(9, width=5)])
def test_a_service_names_what_is_wrong_and_goes_on(running: service.Service, body: bytes) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(running.server_port, body)
    with refused.value as answer:
        assert (answer.code, "error" in json.load(answer)) == (400, True)
    assert ask(running.server_port, png(250))["classes"][0]["label"] == "white"


def test_one_that_does_not_fit_spoils_no_other(served: Path) -> None:
    """Requests that wait while a batch runs are one batch; a shape that does not fit fails alone."""
    entered, go = threading.Event(), threading.Event()

    class Held(tazza.Predictor):
        def run(self, values: Any = None, /, **named: Any) -> dict[str, Any]:
            entered.set()
            go.wait(60)
            return super().run(values, **named)

    with tazza.load(served) as loaded, Held(loaded.definition, loaded.workspace, inputs=["data"]) as predictor:
        together = service.Together(predictor)
        images = [np.full((1, 3, 4 + (i == 2)), i / 4, np.float32) for i in range(4)]
        with ThreadPoolExecutor(5) as pool:
            first = pool.submit(together, images[0])
            assert entered.wait(60)
            rest = [pool.submit(together, image) for image in images]
            while together.asked.qsize() < len(images):
                threading.Event().wait(0.001)
            go.set()
            assert [np.argmax(each.result()) for i, each in enumerate([first, *rest]) if i != 3] == [0, 0, 1, 3]
            with pytest.raises((tazza.errors.TazzaError, ValueError)):
                rest[2].result()
        together.close()
        assert together.batches == [1, 1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_ends_in_order(served: Path, number: signal.Signals) -> None:
    words = [sys.executable, service.__file__, str(served), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rsplit(":", 1)[1].split("/")[0])
        assert ask(port, png(128))["classes"][0]["label"] == "middle"
        process.send_signal(number)
        assert process.wait(60) == 0
