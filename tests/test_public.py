"""The names that `tazza` itself offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tazza


def test_version_is_a_version() -> None:
    assert tazza.__version__[0].isdigit()


@pytest.mark.slow
def test_modules_come_when_they_are_asked_for() -> None:
    """`import tazza` alone does not import them."""
    code = "import sys, tazza; assert 'tazza.random' not in sys.modules; print(tazza.random.default_rng(1).random())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == f"{tazza.random.default_rng(1).random()}\n"
    assert {"array", "random"} <= set(dir(tazza))


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        vars(tazza)["__getattr__"]("lode")
