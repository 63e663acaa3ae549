"""A file that is replaced is whole at every moment, and a failure leaves nothing behind."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tazza.errors import FileError, NumericError
from tazza.runtime.files import atomic_write, write_bytes_atomically


def test_content_appears_only_when_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "checkpoint"
    target.write_bytes(b"old")
    with atomic_write(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [NumericError("loss is NaN"), KeyboardInterrupt(), ValueError("no")])
def test_failure_leaves_the_old_content(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "checkpoint"
    target.write_bytes(b"old")

    def interrupted() -> None:
        with atomic_write(target) as file:
            file.write(b"half")
            raise error

    with pytest.raises(type(error)) as caught:
        interrupted()
    assert caught.value is error
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_full_disk_is_a_file_error(tmp_path: Path) -> None:
    def full() -> None:
        with atomic_write(tmp_path / "checkpoint"):
            raise OSError(28, "No space left on device")

    with pytest.raises(FileError, match=r"cannot write '.*checkpoint': No space left on device"):
        full()
    assert list(tmp_path.iterdir()) == []


def test_missing_folder_and_folder_as_target(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no folder"):
        write_bytes_atomically(tmp_path / "absent" / "a", b"x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(FileError, match="cannot write"):
        write_bytes_atomically(tmp_path / "folder", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_link_is_followed_and_permissions_stay(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_bytes_atomically(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_new_file_has_the_permissions_of_the_process(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_bytes_atomically(tmp_path / "new", b"x")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
