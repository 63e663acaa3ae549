"""The wheel and the source distribution, built in folders of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
PACKAGES = ("tazza", "caffe2")
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def project() -> dict[str, Any]:
    """Return what pyproject.toml says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def outside() -> dict[str, str]:
    """Return the variables of a process that finds nothing of the source tree."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "TAZZA"))}


def run(*words: str | Path, at: Path, **variables: str) -> str:
    """Run a program in a folder, and return what it printed.

    Raises:
        AssertionError: it failed.
    """
    ended = subprocess.run(
        [str(word) for word in words], cwd=at, env=outside() | variables, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{' '.join(map(str, words))}\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def install_backend(folder: Path) -> Path:
    """Install what builds distributions into a new folder, and return that."""
    backend = folder / "backend"
    run(*PIP, "install", "--quiet", "--target", backend, *project()["build-system"]["requires"], at=folder)
    return backend


def build(tree: Path, backend: Path, out: Path, kind: str) -> Path:
    """Build a `wheel` or an `sdist` of a source tree, and return its file."""
    out.mkdir()
    run(
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "--target",
        kind,
        "--directory",
        out,
        at=tree,
        PYTHONPATH=str(backend),
    )
    (made,) = out.iterdir()
    return made


def wheel_content(wheel: Path) -> dict[str, int]:
    """Return the checksum of each file of a wheel."""
    with ZipFile(wheel) as file:
        return {one.filename: one.CRC for one in file.infolist()}


def package_files() -> set[str]:
    """Return the files of both packages as they lie in the source tree."""
    source = ROOT / "src"
    found = (
        path.relative_to(source) for package in PACKAGES for path in (source / package).rglob("*") if path.is_file()
    )
    return {str(path) for path in found if "__pycache__" not in path.parts}
