"""Extension modules: who names them, that every command sees them, and that a broken one takes no command away."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tazza.errors import InitError
from tazza.runtime import chosen_modules, flags, modules
from tazza.runtime.chosen_modules import BROKEN, NAMED, load_chosen_modules
from tests.cli.conftest import Run

DECLARES = "from tazza.runtime.flags import flag\nflag({name!r}, 1, 'of a module')\n"


@pytest.fixture(autouse=True)
def own_modules() -> Iterator[None]:
    """Forget what a test loads."""
    registries = (modules.MODULES, BROKEN, flags.FLAGS)
    before = [set[object](registry.keys()) for registry in registries]
    names = set(sys.modules)
    yield
    for registry, kept in zip(registries, before, strict=True):
        for key in set(registry.keys()) - kept:
            registry.unregister(key)  # pyright: ignore[reportArgumentType] - the key is its own registry's
    for name in set(sys.modules) - names:
        if "extension" in name:
            del sys.modules[name]


def write(folder: Path, name: str, text: str = "") -> Path:
    file = folder / f"{name}.py"
    file.write_text(text if text else DECLARES.format(name=f"of_{name}"))
    return file


def install(folder: Path, name: str, module: str) -> None:
    """Be a package that names a module for tazza."""
    written = folder / f"{name}-1.5.dist-info"
    written.mkdir()
    (written / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n")
    (written / "entry_points.txt").write_text(f"[tazza.modules]\n{name} = {module}\n")


def words(text: str) -> str:
    return " ".join(text.split())


def test_modules_declare_flags_before_flags_are_read(run: Run, tmp_path: Path) -> None:
    one, two = write(tmp_path, "extension_one"), write(tmp_path, "extension_two")
    told = run("--module", one, "--module", two, "--flag", "of_extension_two=7", "flags")
    assert (told.exit_code, told.stderr) == (0, "")
    assert "of_extension_one" in told.output
    assert flags.FLAGS["of_extension_two"].value == 7


def test_the_variable_names_several(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [write(tmp_path, f"extension_{name}") for name in "abc"]
    with NAMED.override(f"{files[0]}{os.pathsep}{files[1]} , {files[2]},"):
        assert run("flags").stderr == ""
    assert {f"of_extension_{name}" for name in "abc"} <= set(flags.FLAGS)
    assert (NAMED.variable, [one.source for one in modules.loaded_modules() if "extension" in one.name]) == (
        "TAZZA_MODULES",
        ["flag modules"] * 3,
    )


def test_a_flag_of_the_command_names_them_too(run: Run, tmp_path: Path) -> None:
    with NAMED.override(""):
        assert run("--flag", f"modules={write(tmp_path, 'extension_flag')}", "flags").stderr == ""
    assert "of_extension_flag" in flags.FLAGS


def test_doctor_lists_what_was_loaded_and_what_could_not_be(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "extension_installed")
    write(tmp_path, "extension_broken", "1 / 0")
    install(tmp_path, "good", "extension_installed")
    install(tmp_path, "bad", "extension_broken")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with caplog.at_level(logging.WARNING, "tazza"):
        told = run("doctor")
    assert told.exit_code == 0, told.stderr
    shown = words(told.output)
    assert "named by entry point good of good 1.5: flag of_extension_installed" in shown
    assert "extension_broken not loaded, named by entry point bad of bad 1.5: module extension_broken failed" in shown
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith("module extension_broken, named by entry point bad of bad 1.5, is left out: module ext")
    assert "ZeroDivisionError" in warning


def test_what_is_asked_for_by_name_must_load(run: Run, tmp_path: Path) -> None:
    told = run("--module", write(tmp_path, "extension_broken", "1 / 0"), "doctor")
    assert told.exit_code == 1
    assert "failed as it was imported: ZeroDivisionError" in words(told.stderr)
    assert "named by --module" in told.stderr
    with pytest.raises(InitError, match=r"nowhere\.py does not exist"):
        load_chosen_modules(["nowhere.py"])


def test_no_file_of_a_net_names_a_module(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies beside a net is not imported, nor what stands in the folder in which a command runs."""
    (tmp_path / "predict_net.pbtxt").write_text('name: "net"\nop { output: "x" type: "ConstantFill" }\n')
    for name in ("tazza_module", "extension", "conftest", "__init__"):
        write(tmp_path, name, "raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert run("show", tmp_path / "predict_net.pbtxt").exit_code == 0
    assert chosen_modules.chosen_modules() == []
