"""Tests that compare outputs, from one seed."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


class TestCase(unittest.TestCase):
    """A test that draws the same numbers each time."""

    def setUp(self) -> None:
        """Start from one seed."""
        np.random.seed(seed=0)

    def assertSameOutputs(
        self, outputs1: Sequence[NDArray[Any]], outputs2: Sequence[NDArray[Any]], decimal: int = 7
    ) -> None:
        """Assert that arrays have equal types, and values that are equal to so many decimals."""
        self.assertEqual(len(outputs1), len(outputs2))
        for one, other in zip(outputs1, outputs2, strict=True):
            self.assertEqual(one.dtype, other.dtype)
            np.testing.assert_almost_equal(one, other, decimal=decimal)

    def add_test_case(self, name: str, test_func: Callable[..., Any]) -> None:
        """Add a test.

        Raises:
            ValueError: the name does not begin with `test_`, or is taken.
        """
        if not name.startswith("test_"):
            raise ValueError(f"Test name must start with test_: {name}")
        if hasattr(self, name):
            raise ValueError(f"Duplicated test name: {name}")
        setattr(self, name, test_func)
