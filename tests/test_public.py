"""The names that `tazza` itself offers."""

from __future__ import annotations

import pytest

import tazza


def test_version_is_a_version() -> None:
    assert tazza.__version__[0].isdigit()


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        vars(tazza)["__getattr__"]("lode")
