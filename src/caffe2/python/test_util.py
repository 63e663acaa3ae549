"""Base of tests of operators as Caffe2's were written: a fresh workspace for each, and blobs of random numbers."""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from caffe2.python import core, workspace

Test = TypeVar("Test", bound=Callable[..., Any])


def rand_array(*dims: int) -> NDArray[np.float32]:
    """Return an array, also of no dimension, of numbers from -0.5 to 0.5."""
    return np.asarray(np.random.rand(*dims) - 0.5).astype(np.float32)


def randBlob(name: Any, type: DTypeLike, *dims: int, **kwargs: Any) -> None:
    """Feed a blob with numbers from 0 to 1, and `offset` more."""
    workspace.FeedBlob(name, np.random.rand(*dims).astype(type) + kwargs.get("offset", 0.0))


def randBlobFloat32(name: Any, *dims: int, **kwargs: Any) -> None:
    """Feed a blob with numbers of float32."""
    randBlob(name, np.float32, *dims, **kwargs)


def randBlobsFloat32(names: Iterable[Any], *dims: int, **kwargs: Any) -> None:
    """Feed several blobs with numbers of float32."""
    for name in names:
        randBlobFloat32(name, *dims, **kwargs)


def numOps(net: Any) -> int:
    """Return how many operators a net has."""
    return len(net.Proto().op)


def str_compare(a: str | bytes, b: str | bytes, encoding: str = "utf8") -> bool:
    """Whether two texts are equal, of which either may be encoded."""
    texts = [one.decode(encoding) if isinstance(one, bytes) else one for one in (a, b)]
    return texts[0] == texts[1]


def get_default_test_flags() -> list[str]:
    """Return the command line that tests start with: new memory holds no zeros."""
    flags = {"log_level": 0, "cpu_allocator_do_zero_fill": 0, "cpu_allocator_do_junk_fill": 1}
    return ["caffe2", *(f"--caffe2_{name}={value}" for name, value in flags.items())]


def caffe2_flaky(test_method: Test) -> Test:
    """Mark a test that does not always pass: it runs only where CAFFE2_RUN_FLAKY_TESTS is 1, and alone there."""
    setattr(test_method, "__caffe2_flaky__", True)  # noqa: B010 -- a mark
    return test_method


def is_flaky_test_mode() -> bool:
    """Whether the tests run that do not always pass, and no others."""
    return os.getenv("CAFFE2_RUN_FLAKY_TESTS", "0") == "1"


class TestCase(unittest.TestCase):
    """A test with a workspace of its own, under the engines that nobody asked for."""

    ws: Any

    @classmethod
    def setUpClass(cls) -> None:
        """Start, and forget which engines were asked for."""
        workspace.GlobalInit(get_default_test_flags())
        core.SetEnginePref({}, {})

    def setUp(self) -> None:
        """Skip what does not run in this mode, and begin without blobs."""
        flaky = getattr(getattr(self, self._testMethodName), "__caffe2_flaky__", False)
        if flaky != is_flaky_test_mode():
            told = "Flaky tests are skipped in regular" if flaky else "Non-flaky tests are skipped in flaky"
            raise unittest.SkipTest(f"{told} test mode")
        self.ws = workspace.C.Workspace()
        workspace.ResetWorkspace()

    def tearDown(self) -> None:
        """Leave no blobs."""
        workspace.ResetWorkspace()
