"""Packages that import their names when they are first used."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PACKAGES = ("tazza", "tazza.interop", "tazza.array.sparse", "tazza.array.quantized")


@pytest.mark.parametrize("name", PACKAGES)
def test_every_public_name_is_there(name: str) -> None:
    package = importlib.import_module(name)
    for public in package.__all__:
        assert getattr(package, public) is not None
        assert public in vars(package), "it is kept"
        assert public in dir(package)


@pytest.mark.parametrize("name", PACKAGES)
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    package = importlib.import_module(name)
    with pytest.raises(AttributeError, match=rf"^module '{name}' has no attribute 'lode'$"):
        getattr(package, "lode")  # noqa: B009 -- a type checker knows that it is not there


@pytest.mark.slow
def test_names_are_listed_before_anything_is_imported() -> None:
    """Those that it lends are those that it names as public."""
    code = """
import importlib, sys
for name in sys.argv[1:]:
    package = importlib.import_module(name)
    lent = set(dir(package)) - set(vars(package)) - {"__version__"}
    assert lent == set(package.__all__) - set(vars(package)), (name, lent)
    assert len(lent) > 5, (name, lent)
    """
    subprocess.run([sys.executable, "-c", code, *PACKAGES[::-1]], check=True)
