"""What commands print on a terminal: lines fit, no cell is cut, errors are red; into a pipe all goes plain and whole.

`tests/docs/test_commands.py` holds every command that a document shows to the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tazza.cli.table import INDENT, Column, Row, broken, table_lines
from tazza.interop import save_nets
from tazza.models import Model
from tazza.runtime.flags import all_flags
from tazza.workspace import Workspace
from tests.cli.conftest import Outcome, Run

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
RED = "\x1b[1;31m"
COLUMNS = 80
LEGACY = Path(__file__).parents[2] / "examples" / "legacy"
USES: list[Any] = [
    ("flags",),
    ("doctor",),
    pytest.param(("doctor", "--memory"), marks=pytest.mark.slow),  # imports everything
    ("ops", "--family", "nn"),
    ("ops", "Conv"),
    ("show", "predict_net.pb", "--shape", "data=1,1,28,28"),
    ("migrate", str(LEGACY / "mnist.py")),
]


@pytest.fixture
def nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with a net whose names are long."""
    monkeypatch.chdir(tmp_path)
    model, workspace = Model("a net with a name of some length"), Workspace()
    for number in range(3):
        model.conv("data", f"a_blob_with_a_long_name/{number}", 1, 8, 3)
    softmax = model.softmax(model.fc("a_blob_with_a_long_name/2", "scores", 8 * 26 * 26, 10), "softmax")
    workspace.run_net_once(model.init_net.proto)
    save_nets("init_net.pb", "predict_net.pb", model, workspace, outputs=[softmax])


def at_terminal(run: Run, monkeypatch: pytest.MonkeyPatch, columns: int, words: Sequence[str]) -> Outcome:
    """Run a command in a terminal of so many columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    return run(*words)


@pytest.mark.slow
@pytest.mark.usefixtures("nets")
@pytest.mark.parametrize("words", USES, ids=lambda words: " ".join(Path(word).name for word in words))
def test_lines_fit_and_nothing_is_cut(words: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = at_terminal(run, monkeypatch, COLUMNS, words)
    assert shown.exit_code == 0
    lines = [line.rstrip() for line in ESCAPE.sub("", shown.output).splitlines()]
    assert [line for line in lines if cell_len(line) > COLUMNS] == []
    assert "…" not in shown.output


def test_every_flag_is_told_whole(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(ESCAPE.sub("", at_terminal(run, monkeypatch, COLUMNS, ["flags"]).output).split())
    assert [one.name for one in all_flags() if "".join(one.help.split()) not in text] == []


@pytest.mark.slow
def test_errors_are_red_on_a_terminal_alone(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = run("show", "nothing.pb")
    assert piped.stderr.startswith("error: 'nothing.pb' does not exist")
    shown = at_terminal(run, monkeypatch, COLUMNS, ["show", "nothing.pb"])
    assert shown.stderr.startswith(f"{RED}error:\x1b[0m 'nothing.pb'")
    assert shown.exit_code == piped.exit_code == 1


CELLS = st.text(st.sampled_from("ab_/. é漢"), max_size=30)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=4), st.integers(30, 80))
def test_tables_fit_and_keep_every_letter(cells: list[tuple[str, str, str]], width: int) -> None:
    columns = [Column("name"), Column("n", number=True), Column("what", below=True)]
    told = [(name, "10", what) for name, _, what in cells]
    lines = [str(line) for line in table_lines(columns, [Row(row) for row in told], None, width)]
    assert [line for line in lines if cell_len(line) > width] == []
    letters = "".join("".join(row) for row in [("name", "n", "what"), *told])
    assert sorted("".join(lines).replace(" ", "")) == sorted(letters.replace(" ", ""))
    assert INDENT < width


@given(CELLS, st.integers(2, 20))
def test_broken_text_has_every_letter(text: str, width: int) -> None:
    lines = broken(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert max(map(cell_len, lines)) <= width
