"""The index of names: up to date, one module for a name, and none for a name that is not there."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tazza.tensor as tt
from tazza.tensor.names import NAMES, PATH, STUB, dump, dump_stub, generate, homes


def test_the_index_is_up_to_date() -> None:
    found = generate()
    assert PATH.read_text() == dump(found), "make index"
    assert STUB.read_text() == dump_stub(found[NAMES]), "make index"


def test_every_name_is_there() -> None:
    assert set(homes()) < set(dir(tt))
    assert [name for name in homes() if not hasattr(tt, name)] == []
    assert tt.can_cast is tt.standard.can_cast, "the one that takes data types"
    with pytest.raises(AttributeError, match="has no attribute 'typo'"):
        tt.typo  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] # noqa: B018 - the mistake


@pytest.mark.parametrize(
    ("expression", "loaded"),
    [
        ("hasattr(tt, 'typo')", set[str]()),
        ("dir(tt)", set[str]()),
        ("tt.ALLOCATORS", set[str]()),
        ("tt.sparse", {"sparse"}),
        ("tt.promote", {"promotion"}),
    ],
)
def test_a_name_imports_one_module(expression: str, loaded: set[str]) -> None:
    program = f"import sys, tazza.tensor as tt; old = set(sys.modules); {expression}; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    new = {name.removeprefix("tazza.tensor.") for name in done.stdout.split() if name.startswith("tazza.")}
    assert new == loaded
