"""What people install: the wheel, the source distribution, and a day of somebody who has nothing but the wheel."""

from __future__ import annotations

import re
import shutil
import sys
import tarfile
from collections.abc import Iterable
from email import message_from_bytes
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import pytest

import tazza
from tests.distribution.built import PIP, ROOT, build, install_backend, package_files, project, run, wheel_content

KINDS = {".py", ".pyi", ".typed", ".json", ".txt", ".proto", ".h", ".html", ".css", ".js"}
"""Of files that the package is made of: modules, types, indexes, messages, the header of native modules, the page."""


def test_the_version_is_told_once() -> None:
    """The history of changes begins with it; the package asks its own metadata."""
    version = project()["project"]["version"]
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert first is not None
    assert first[1] == version
    assert tazza.__version__ == version
    told = [path for path in (ROOT / "src").rglob("*.py") if f'"{version}"' in path.read_text(encoding="utf-8")]
    assert told == []


def test_every_extra_is_told() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    extras = set(project()["project"]["optional-dependencies"])
    assert {extra for extra in extras if f"| extra `{extra}` |" in readme} == extras - {"proto"}


@pytest.mark.slow
@pytest.mark.delivery
def test_wheels_of_the_tree_and_of_its_distribution_are_one(tmp_path: Path) -> None:
    backend = install_backend(tmp_path)
    wheel = build(ROOT, backend, tmp_path / "wheel", "wheel")
    check_metadata(wheel)
    sdist = build(ROOT, backend, tmp_path / "sdist", "sdist")
    with tarfile.open(sdist) as file:
        file.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    content = wheel_content(wheel)
    assert wheel_content(build(unpacked, backend, tmp_path / "again", "wheel")) == content

    described = {name for name in content if ".dist-info/" in name}
    assert set(content) - described == package_files()
    assert {Path(name).suffix for name in set(content) - described} <= KINDS
    assert {"tazza/py.typed", "caffe2/py.typed"} <= content.keys()
    assert {"Makefile", "CHANGELOG.md", "CONTRIBUTING.md", ".ci", "tests", "docs"} <= {
        path.name for path in unpacked.iterdir()
    }
    assert not list(unpacked.rglob("__pycache__"))


def names(requirements: Iterable[str]) -> set[str]:
    """Return what is required, without versions and conditions.

    >>> sorted(names(["numpy>=1.26", "onednn-cpu-gomp>=2023.2; platform_system=='Linux'"]))
    ['numpy', 'onednn-cpu-gomp']
    """
    return {re.split(r"[^\w-]", each)[0].replace("_", "-") for each in requirements}


def check_metadata(wheel: Path) -> None:
    """Check what the wheel says of itself, and that nothing of an extra comes by itself."""
    version = project()["project"]["version"]
    assert wheel.name == f"tazza-{version}-py3-none-any.whl"
    with ZipFile(wheel) as file:
        told = message_from_bytes(file.read(f"tazza-{version}.dist-info/METADATA"))
        points = file.read(f"tazza-{version}.dist-info/entry_points.txt").decode()
    assert (told["Version"], told["License-Expression"]) == (version, "Apache-2.0")
    assert "tazza = tazza.cli:main" in points
    needed = names([each for each in told.get_all("Requires-Dist", []) if "extra ==" not in each])
    assert needed == names(project()["project"]["dependencies"])
    assert needed.isdisjoint(names(chain(*project()["project"]["optional-dependencies"].values())))


@pytest.mark.slow
@pytest.mark.delivery
def test_a_day_with_nothing_but_a_wheel(tmp_path: Path) -> None:
    """`pip install` of the wheel into an environment of its own, in another folder; then what newcomers do."""
    wheel = build(ROOT, install_backend(tmp_path), tmp_path / "wheel", "wheel")
    own = tmp_path / "own"
    run(sys.executable, "-m", "venv", own, at=tmp_path)
    python = own / "bin" / "python"
    run(python, *PIP[1:], "install", "--quiet", f"{wheel}[tensorboard]", at=tmp_path)
    day = tmp_path / "day"
    day.mkdir()
    program = shutil.copy(ROOT / "tests" / "distribution" / "newcomer.py", tmp_path)
    shutil.copy(ROOT / "examples" / "service.py", tmp_path)
    print(run(python, program, day, at=tmp_path))
