"""Operators on the device by cuDNN, beside the reference kernel, and what the fake library says of its runs."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import device_option
from tazza.engines.cudnn.graph import Direction, Form, Problem, Windows
from tazza.engines.cudnn.library import CUDNN
from tazza.operator import run_op
from tazza.tensor import CUDAPlace, DataType, Tensor
from tests.cuda_there import why_no_device
from tests.device.cudnn_library import FakeCudnn

Array = NDArray[Any]
DEVICE = CUDAPlace(0)
on_fake = pytest.mark.skipif(why_no_device() is None, reason="the fake library's engines are asked for")
X = np.random.default_rng(1).standard_normal((2, 4, 7, 6)).astype(np.float32)
W = np.random.default_rng(2).standard_normal((6, 4, 3, 2)).astype(np.float32)


def on_device(type: str, *inputs: Array | Tensor, **arguments: Any) -> list[Array]:
    """Run an operator on the device by this engine; return arrays."""
    tensors = [one if isinstance(one, Tensor) else Tensor.from_numpy(one).to_device(DEVICE) for one in inputs]
    return arrays(run_op(type, *tensors, device=device_option(DEVICE), engine="cudnn", **arguments))


def arrays(found: Any) -> list[Array]:
    """Return what an operator gave as arrays."""
    return [np.asarray(one) for one in (cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,))]


def there(type: str, *inputs: Array, **arguments: Any) -> list[Array]:
    """Run an operator on the device by this engine, and by the reference kernel; assert that both agree."""
    found = on_device(type, *inputs, **arguments)
    wanted = arrays(run_op(type, *inputs, engine="reference", **arguments))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)
    return found


def ran() -> list[int]:
    """Return the engines of the fake library that ran, and forget them."""
    library = CUDNN.functions().fake
    assert isinstance(library, FakeCudnn)
    found, library.ran = library.ran, []
    return found


PROBLEM = Problem(
    Direction.FORWARD,
    DataType.FLOAT,
    Form((2, 4, 7, 6), (168, 42, 6, 1)),
    Form((6, 4, 3, 2), (24, 6, 2, 1)),
    Form((2, 6, 5, 5), (150, 25, 5, 1)),
    Windows((0, 0), (0, 0), (1, 1), (1, 1)),
)
MISFITS: dict[str, dict[str, Any]] = {
    "extents of the result": {"Y": Form((2, 6, 5, 4), (120, 20, 4, 1))},
    "swapped": {"W": PROBLEM.X, "X": PROBLEM.W},
    "a pad more": {"windows": Windows((0, 0), (1, 0), (1, 1), (1, 1))},
    "too few dimensions": {"X": Form((2, 4, 7), (28, 7, 1))},
}
"""What makes a problem of another that no library takes."""
