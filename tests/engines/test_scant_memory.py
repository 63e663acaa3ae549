"""Whatever memory is left: a kernel that is compiled ends in a result or in a typed error, never with the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tazza.engines.onednn.library import unavailable
from tazza.runtime.native_code import unavailable as no_compiler
from tests.check import engines_of
from tests.judge.draw import drawable

ROOT = Path(__file__).parents[2]


def tried(engine: str, folder: Path, *types: str) -> list[str]:
    """Return the types that a child tried to its end."""
    variables = {"OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1", "TAZZA_CACHE_DIR": str(folder / "none")}
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.engines.scant_memory", engine, *types],
        cwd=ROOT,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, f"{ended.stdout.split()[-1:]}: {ended.stderr[-3000:]}"
    return ended.stdout.split()


@pytest.mark.slow
@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_layer_norm_with_little_room(tmp_path: Path) -> None:
    assert tried("onednn", tmp_path, "LayerNorm") == ["LayerNorm"]


@pytest.mark.slow
@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
def test_onednn_with_little_room(tmp_path: Path) -> None:
    types = [type for type in drawable() if "onednn" in engines_of(type)]
    assert tried("onednn", tmp_path, *types) == types
    assert len(types) > 50


@pytest.mark.slow
@pytest.mark.skipif(no_compiler() is not None, reason=str(no_compiler()))
def test_compiling_with_little_room(tmp_path: Path) -> None:
    types = [type for type in drawable() if "native" in engines_of(type)][::6]  # all of them go through one function
    assert tried("native", tmp_path, *types) == types
    assert len(types) > 5
