"""The package of `examples/python_module`: its own tests, and that every command sees what it brings.

In processes of their own: what it registers stays out of the laws over all operators of tazza.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.delivery

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "python_module"


def environment(**more: str) -> dict[str, str]:
    """The variables of a process that finds this tree and the example."""
    path = os.pathsep.join([str(ROOT / "src"), str(EXAMPLE / "src")])
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200", **more}


def shown(*words: object, env: dict[str, str] | None = None, folder: Path = ROOT) -> str:
    """Run Python with these words; what it printed, with blanks of any length as one."""
    found = environment() if env is None else env
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=folder, env=found, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stdout.split())


RUNS = """
import json, sys
from tazza.cli.app import app
for words in json.loads(sys.argv[1]):
    try:
        app(["--module", "tazza_example", *words], prog_name="tazza")
    except SystemExit as ended:
        assert ended.code == 0, words
    print("|")
"""
"""Commands in one process, since each of them takes a second to start."""


@pytest.mark.slow
def test_its_own_tests() -> None:
    told = shown("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=EXAMPLE)
    assert "passed" in told
    assert "failed" not in told


NET = """
name: "net" external_input: "x" external_output: "y"
op { input: "x" output: "squares" type: "SquaredRelu" } op { input: "squares" output: "y" type: "Flatten" }
"""
BROUGHT = (
    "DB type lines",
    "engine blocks",
    "engine) ('SquaredRelu', 'cpu', 'blocks')",
    "operator SquaredRelu",
    "transform scale_chain",
)


@pytest.mark.slow
def test_every_command_sees_what_it_brings(tmp_path: Path) -> None:
    net, init_net, images, page = (tmp_path / name for name in ("net.pbtxt", "init.pbtxt", "x.npy", "view.html"))
    net.write_text(NET)
    init_net.write_text('name: "init"')
    np.save(images, np.array([[[10, 20], [250, 30]]], np.uint8))
    nets = [net, "--init-net", init_net]
    commands: list[list[object]] = [
        ["doctor"],
        ["ops", "--family", "tazza_example.squared_relu"],
        ["show", net, "--shape", "x=1,1,2,2"],
        ["predict", net, images, *nets[1:], "--top", 1],
        ["view", *nets, "--shape", "x=1,1,2,2", "--runs", 1, "--workers", 0, "--out", page],
    ]
    words = [[str(word) for word in command] for command in commands]
    doctor, ops, show, predict, _, _ = shown("-c", RUNS, json.dumps(words)).split("|")
    _, _, modules = doctor.partition("modules tazza_example python")
    assert [brought for brought in BROUGHT if brought not in modules] == []
    assert "blocks (cpu) available, 1 operators." in doctor
    assert "SquaredRelu blocks" in ops
    assert "SquaredRelu" in show
    assert ": 2 (" in predict
    html = page.read_text()
    assert "SquaredRelu" in html
    assert "scale_chain" in html


@pytest.mark.slow
def test_installed_it_is_found_by_its_entry_point(tmp_path: Path) -> None:
    """Skips where the tool that builds a package cannot be had."""
    target = tmp_path / "installed"
    words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--retries", "0"]
    made = subprocess.run(
        [sys.executable, *words, "--target", str(target), str(EXAMPLE)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"pip cannot build the package here: {made.stderr.strip().splitlines()[-1]}")
    env = environment(PYTHONPATH=os.pathsep.join([str(ROOT / "src"), str(target)]))
    assert "named by entry point example of tazza-example 0.1.0" in shown(
        "-m", "tazza", "doctor", env=env, folder=tmp_path
    )
