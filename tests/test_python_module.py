"""The package of `examples/python_module`: its own tests, and that every command sees what it brings.

In processes of their own: what it registers stays out of the laws over all operators of tazza.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

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


def tazza(*words: object) -> str:
    return shown("-m", "tazza", "--module", "tazza_example", *words)


@pytest.mark.slow
def test_its_own_tests() -> None:
    told = shown("-m", "pytest", "-q", "-p", "no:cacheprovider", EXAMPLE, folder=EXAMPLE)
    assert "passed" in told
    assert "failed" not in told


@pytest.mark.slow
def test_doctor_and_ops_show_what_it_brings() -> None:
    doctor = tazza("doctor")
    for brought in (
        "DB type lines",
        "engine blocks",
        "engine) ('SquaredRelu', 'cpu', 'blocks')",
        "operator SquaredRelu",
        "transform scale_chain",
    ):
        assert brought in doctor.partition("modules tazza_example python")[2]
    assert "blocks (cpu) available, 1 operators." in doctor
    listed = tazza("ops", "--family", "tazza_example.squared_relu")
    assert "SquaredRelu blocks" in listed
    assert "Y = max(X, 0)^2." in shown(
        "-m", "tazza", "ops", "SquaredRelu", env=environment(TAZZA_MODULES="tazza_example")
    )


NET = """
name: "net" external_input: "x" external_output: "y"
op { input: "x" output: "squares" type: "SquaredRelu" } op { input: "squares" output: "y" type: "Flatten" }
"""


@pytest.mark.slow
def test_commands_run_and_show_nets_of_its_operators(tmp_path: Path) -> None:
    net, init_net = tmp_path / "predict_net.pbtxt", tmp_path / "init_net.pbtxt"
    net.write_text(NET)
    init_net.write_text('name: "init"')
    np.save(tmp_path / "x.npy", np.array([[[10, 20], [250, 30]]], np.uint8))
    assert "SquaredRelu" in tazza("show", net, "--shape", "x=1,1,2,2")
    assert ": 2 (" in tazza("predict", net, tmp_path / "x.npy", "--init-net", init_net, "--top", 1)
    tazza("view", net, "--init-net", init_net, "--shape", "x=1,1,2,2", "--runs", 1, "--out", tmp_path / "view.html")
    page = (tmp_path / "view.html").read_text()
    assert "SquaredRelu" in page
    assert "scale_chain" in page


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
    assert "max(X, 0)^2" in shown("-m", "tazza", "show", "--operator", "SquaredRelu", env=env, folder=tmp_path)
