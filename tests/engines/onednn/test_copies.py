"""Copies of the library become links to one; what differs, or cannot be replaced, stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tazza.engines.onednn.copies import keep_one_copy

NAMES = ("libdnnl.so", "libdnnl.so.3", "libdnnl.so.3.2")


def written(folder: Path, content: bytes = b"code") -> dict[str, Path]:
    """Write the library under all its names."""
    found = {name: folder / name for name in NAMES}
    for path in found.values():
        path.write_bytes(content)
    return found


def test_copies_become_links_once(tmp_path: Path) -> None:
    paths = written(tmp_path)
    assert [keep_one_copy(tmp_path) for _ in range(2)] == [2, 0]
    assert [path.is_symlink() for path in paths.values()] == [True, True, False]
    assert {os.readlink(path) for path in paths.values() if path.is_symlink()} == {NAMES[-1]}
    assert [path.read_bytes() for path in paths.values()] == [b"code"] * 3
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)


def test_what_differs_stays(tmp_path: Path) -> None:
    paths = written(tmp_path)
    paths["libdnnl.so"].write_bytes(b"edoc")
    assert keep_one_copy(tmp_path) == 1
    assert paths["libdnnl.so"].read_bytes() == b"edoc"
    assert not paths["libdnnl.so"].is_symlink()


def test_what_cannot_be_replaced_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path)

    def denied(path: Path, mode: int) -> bool:
        return False

    with monkeypatch.context() as patched:
        patched.setattr(os, "access", denied)
        assert keep_one_copy(tmp_path) == 0

    def refuse(path: Path, target: Path) -> Path:
        raise PermissionError(f"{path} stays")

    monkeypatch.setattr(Path, "replace", refuse)
    assert keep_one_copy(tmp_path) == 0
    assert sorted(os.listdir(tmp_path)) == sorted(NAMES)
    assert not any((tmp_path / name).is_symlink() for name in NAMES)
