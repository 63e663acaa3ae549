"""The index of names: up to date, one module for a name, and none for a name that is not there."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import tazza.array as ta
import tazza.tensor as tt
from tazza.tensor.names import NAMES, PACKAGES, PATH, dump, dump_stub, generate, homes, stub_path


def test_the_index_is_up_to_date() -> None:
    found = generate()
    assert PATH.read_text() == dump(found), "make index"
    for package in PACKAGES:
        assert stub_path(package).read_text() == dump_stub(found[NAMES]), "make index"


@pytest.mark.parametrize("package", [tt, ta])
def test_every_name_is_there(package: ModuleType) -> None:
    assert set(homes()) < set(dir(package))
    assert [name for name in dir(package) if not hasattr(package, name)] == []
    assert package.can_cast is ta.standard.can_cast, "the one that takes data types"
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'typo'"):
        package.typo  # noqa: B018 - the mistake


def test_both_packages_lend_the_same() -> None:
    assert set(dir(tt)) == set(dir(ta))
    assert [name for name in dir(tt) if getattr(tt, name) is not getattr(ta, name)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("expression", "loaded"),
    [
        ("hasattr(tt, 'typo')", set[str]()),
        ("dir(tt)", set[str]()),
        ("tt.ALLOCATORS", set[str]()),
        ("tt.promote", {"tensor.promotion"}),
        ("import tazza.array as ta; ta.Tensor", {"array"}),
        ("tt.sparse", {"array", "array.sparse"}),
        ("tt.Tensor((2,)).T", {"array", "array.views", "tensor.transfer"}),
    ],
)
def test_a_name_imports_one_module(expression: str, loaded: set[str]) -> None:
    program = f"import sys, tazza.tensor as tt; old = set(sys.modules); {expression}; print(*set(sys.modules) - old)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    new = {name.removeprefix("tazza.") for name in done.stdout.split() if name.startswith("tazza.")}
    assert new == loaded
