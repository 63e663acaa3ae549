"""A shared object that was written without a compiler is loaded by the system."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from tests.wheels.shared_object import shared_object


@pytest.mark.parametrize("names", [["one"], ["one", "two", "three"]])
def test_its_functions_answer(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "libanswers.so.1"
    path.write_bytes(shared_object(path.name, names, 100))
    library = ctypes.CDLL(str(path))
    assert [getattr(library, name)() for name in names] == [100] * len(names)
    with pytest.raises(AttributeError):
        library.four  # noqa: B018 -- is looked up
