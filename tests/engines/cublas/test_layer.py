"""Layers by one call of cuBLASLt: bias, operand and rectifier, beside NumPy; what does not fit is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.block import Slot
from tazza.device import current_context, device_option
from tazza.device.cuda import queue_of
from tazza.engines.cublas.layer import Described, LayerLaunch
from tazza.errors import KernelError
from tazza.operator import Operands, run_op
from tazza.tensor import DataType, Tensor
from tests.device.cuda_cases import DEVICE

N, M, K = 5, 7, 3
DRAW = np.random.default_rng(4)
X, W, B, S = (DRAW.standard_normal(shape).astype(np.float32) for shape in ((N, K), (M, K), (M,), (N, M)))


def there(value: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> Tensor:
    """Return a tensor on the device."""
    return Tensor.from_numpy(value).to_device(DEVICE)


@pytest.mark.parametrize(
    ("epilogue", "operands"), [("y", 0), ("relu(y)", 0), ("y + s0", 1), ("relu(y + s0)", 1), ("max(s0 + y, 0)", 1)]
)
def test_a_layer_and_what_stands_behind_it(epilogue: str, operands: int) -> None:
    given = [X, W, B, *([S] if operands else [])]
    found = run_op(
        "FusedFC",
        *map(there, given),
        device=device_option(DEVICE),
        engine="cublas",
        epilogue=epilogue,
        operands=operands,
    )
    wanted = X @ W.T + B + (S if operands else 0)
    wanted = wanted if epilogue.startswith("y") else np.maximum(wanted, 0)
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)


def test_no_number_behind_a_rectifier_stays_none() -> None:
    x = X.copy()
    x[0, 0] = np.nan
    found = run_op("FusedFC", *map(there, (x, W, B)), device=device_option(DEVICE), engine="cublas", epilogue="relu(y)")
    assert np.isnan(np.asarray(found)[0]).all()
    assert not np.isnan(np.asarray(found)[1:]).any()


@pytest.mark.parametrize("features_first", [True, False])
@pytest.mark.parametrize("added", [True, False])
def test_the_launch_itself(features_first: bool, added: bool) -> None:
    context, Y = current_context(DEVICE), there(np.zeros((N, M), np.float32))
    weights = W if features_first else np.ascontiguousarray(W.T)
    tensors = {"X": there(X), "W": there(weights), "b": there(B), "S": (there(S),), "Y": Y}
    launch = LayerLaunch(DataType.FLOAT, (N, M, K), features_first, Slot("S", 0) if added else None)
    launch.bind(Operands(tensors, context.scratch(launch.scratch_bytes), lambda: None, context))()  # pyright: ignore[reportArgumentType]
    np.testing.assert_allclose(Y.plain(), X @ W.T + B + (S if added else 0), rtol=1e-5, atol=1e-5)


def test_extents_that_do_not_fit_are_refused() -> None:
    context = current_context(DEVICE)
    tensors = {"X": there(X), "W": there(W), "b": there(B), "Y": there(np.zeros((N, M), np.float32))}
    launch = LayerLaunch(DataType.DOUBLE, (N, M, K))
    with pytest.raises(KernelError, match="cuBLAS answers cublasLtMatmul with status"):
        launch.bind(Operands(tensors, context.scratch(launch.scratch_bytes), lambda: None, context))()  # pyright: ignore[reportArgumentType]


def test_attributes_have_sizes() -> None:
    import ctypes

    made = Described(queue_of(current_context(DEVICE)).device, "MatmulDesc", 68, 0)
    with pytest.raises(KernelError):
        made.set("EPILOGUE", ctypes.c_void_p(6))


def test_nobody_has_no_result() -> None:
    found = run_op(
        "FusedFC", *map(there, (X[:0], W, B)), device=device_option(DEVICE), engine="cublas", epilogue="relu(y)"
    )
    assert np.asarray(found).shape == (0, M)
