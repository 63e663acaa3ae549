"""Methods of arrays: each that NumPy's have is here or is told why not, and gives what NumPy's gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.array as ta
from tazza.errors import ArgumentError, BoundsError, ShapeError

NOT_HERE = {
    "argpartition": "argsort does more",
    "base": "views share a storage",
    "byteswap": "elements are in the machine's order",
    "choose": "ta.where, or an index",
    "compress": "an index with booleans",
    "conj": "there are no complex numbers",
    "conjugate": "there are no complex numbers",
    "ctypes": "address, or DLPack",
    "data": "address, or DLPack",
    "dump": "serialize, or safetensors",
    "dumps": "serialize, or safetensors",
    "flags": "layout tells how elements lie",
    "flat": "flatten()",
    "getfield": "there are no fields",
    "imag": "there are no complex numbers",
    "itemset": "gone from NumPy 2",
    "newbyteorder": "gone from NumPy 2",
    "partition": "sort does more",
    "ptp": "gone from NumPy 2",
    "put": "x[...] = value",
    "real": "there are no complex numbers",
    "setfield": "there are no fields",
    "setflags": "layout tells how elements lie",
    "strides": "layout tells how elements lie",
    "tofile": "tobytes, or safetensors",
    "tostring": "gone from NumPy 2",
}

Call = Callable[[Any], Any]


def test_every_method_of_numpy_is_here_or_is_told_why_not() -> None:
    theirs = {name for name in dir(np.ndarray) if not name.startswith("_")}
    ours = {name for name in dir(ta.Tensor) if not name.startswith("_")}
    assert theirs - ours == theirs & NOT_HERE.keys()
    assert NOT_HERE.keys() & ours == set()


def axis_or_none(x: Any, axis: int) -> int | None:
    """Return an axis of `x`, or None."""
    return None if axis == x.ndim else axis


CALLS: dict[str, Callable[[Any, int], Any]] = {
    "argmax": lambda x, k: x.argmax(axis_or_none(x, k)),
    "argmin": lambda x, k: x.argmin(axis=axis_or_none(x, k), keepdims=True),
    "argsort": lambda x, k: (
        x.argsort(min(k, x.ndim - 1)) if isinstance(x, ta.Tensor) else x.argsort(min(k, x.ndim - 1), "stable")
    ),
    "clip": lambda x, k: x.clip(-1, 2) if k else x.clip(max=1),
    "cumprod": lambda x, k: x.cumprod(axis_or_none(x, k)),
    "cumsum": lambda x, k: x.cumsum(axis_or_none(x, k)),
    "diagonal": lambda x, k: x.diagonal(k - 1, 0, x.ndim - 1),
    "dot": lambda x, k: x.dot(x.T if k else 3),
    "itemsize": lambda x, k: x.itemsize,
    "nonzero": lambda x, k: x.nonzero()[min(k, x.ndim - 1)],
    "ravel": lambda x, k: x.ravel(),
    "repeat": lambda x, k: x.repeat(k, axis_or_none(x, k)),
    "round": lambda x, k: x.round(k - 1),
    "searchsorted": lambda x, k: x.ravel()[:1].searchsorted(x, "left" if k else "right"),
    "squeeze": lambda x, k: x[None].squeeze(0) if k else x.squeeze(),
    "std": lambda x, k: x.std(axis_or_none(x, k), ddof=0.5),
    "swapaxes": lambda x, k: x.swapaxes(0, min(k, x.ndim - 1)),
    "take": lambda x, k: x.take([[0, -1]], axis_or_none(x, k)),
    "trace": lambda x, k: x.trace(k - 1, 0, x.ndim - 1),
    "var": lambda x, k: x.var(axis_or_none(x, k)),
    "np.clip": lambda x, k: np.clip(x, 0, 1),
    "np.argmax": lambda x, k: np.argmax(x, axis_or_none(x, k)),
    "np.std": lambda x, k: np.std(x, axis=axis_or_none(x, k)),
    "np.squeeze": lambda x, k: np.squeeze(x),
    "np.around": lambda x, k: cast("Any", np.around(x, k)),
}


def drawn(seed: int, axes: int) -> np.ndarray[Any, Any]:
    """Draw an array with small numbers, quarters where it has floats; equal ones are among them."""
    random = np.random.default_rng(seed)
    dtype = random.choice(["f4", "f8", "i4", "i8"])
    x = random.integers(-12, 13, random.integers(1, 5, axes)).astype(dtype)
    return x / x.dtype.type(4) if x.dtype.kind == "f" else x


@pytest.mark.parametrize("name", CALLS)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), axes=st.integers(2, 3), k=st.integers(0, 3))
def test_as_numpy(name: str, seed: int, axes: int, k: int) -> None:
    x = drawn(seed, 2 if name == "dot" else axes)
    k = min(k, x.ndim)
    found, wanted = CALLS[name](ta.asarray(x), k), CALLS[name](x, k)
    if name == "itemsize":
        assert found == wanted
        return
    assert isinstance(found, ta.Tensor)
    assert tuple(found.shape) == wanted.shape
    exact = name.rpartition(".")[2] not in ("std", "var", "cumprod", "dot")
    np.testing.assert_allclose(found.numpy(), wanted, rtol=0 if exact else 2e-5, atol=0 if exact else 2e-5)


def test_sort_is_in_place() -> None:
    x = ta.asarray([[3, 1, 2], [9, 7, 8]])
    view = x[1]
    assert x.sort() is None
    assert view.tolist() == [7, 8, 9]
    x.sort(0)
    assert x.tolist() == [[1, 2, 3], [7, 8, 9]]


def test_bfloat16_is_rounded_to_decimals() -> None:
    x = ta.asarray([1.25, -0.5], dtype="bfloat16")
    assert x.round(1).tolist() == ta.asarray([1.2, -0.5], dtype="bfloat16").tolist()


def test_what_is_refused() -> None:
    x = ta.asarray([[1.0, 2.0, 3.0]])
    with pytest.raises(ArgumentError, match="out"):
        x.argmax(out=x)  # pyright: ignore[reportArgumentType]
    with pytest.raises(BoundsError, match="out of bounds"):
        x.take(7)
    with pytest.raises(ShapeError, match="extent 3"):
        x.squeeze(1)
    with pytest.raises(ShapeError, match="no element"):
        ta.zeros((0,)).argmin()
