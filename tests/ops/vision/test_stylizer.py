"""The two ends of a stylizer: byte by byte, noise that a workspace keeps, there and back, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op, touches
from tazza.ops.vision.stylizer import NOISE
from tazza.proto import DeviceOption, OperatorDef
from tazza.workspace import Workspace
from tests.check import Case, check_op, on_all_engines
from tests.sequences import Sequence, Step, on_sequences

Array = NDArray[Any]

IN, OUT = "PackedInt8BGRANHWCToNCHWCStylizerPreprocess", "BRGNCHWCToPackedInt8BGRAStylizerDeprocess"
PICTURES = np.random.default_rng(9).integers(0, 256, (2, 5, 3, 4)).astype(np.uint8)
MEAN = np.array([103.5, 116.75, 9.25], np.float32)
GIVEN = np.linspace(-3, 3, 7, dtype=np.float32)


def taken(pictures: Array, mean: Array, noise: Array, size: int) -> Array:
    """Return what a net takes, pixel by pixel."""
    N, H, W, _ = pictures.shape
    Y = np.zeros((N, 3, H, W), np.float32)
    for n, h, w in np.ndindex(N, H, W):
        for c in range(3):
            drawn = noise[(3 * (h * W + w) + c) % size]
            Y[n, c, h, w] = np.float32(np.float32(pictures[n, h, w, c]) - mean[c]) + drawn
    return Y


def shown(X: Array, mean: Array) -> Array:
    """Return what people see, pixel by pixel."""
    N, _, H, W = X.shape
    Y = np.full((N, H, W, 4), 255, np.uint8)
    for n, c, h, w in np.ndindex(*X.shape):
        value = float(X[n, c, h, w]) + float(mean[c])
        Y[n, h, w, c] = 0 if np.isnan(value) else int(min(max(value, 0), 255))
    return Y


def take(size: int, out: str = "y", seed: int = 7, **args: Any) -> OperatorDef:
    """Return an operator with a seed."""
    device = DeviceOption(random_seed=seed)
    return operator_def(IN, ["x", "m"], [out], device=device, noise_size=size, **args)


FEEDS = {"x": PICTURES, "m": MEAN}
DRAWN = run_op("GaussianFill", device=DeviceOption(random_seed=7), shape=[11], mean=0.0, std=10.0)
KEPT = [
    Sequence(
        "drawn once",
        (
            Step(take(11), {"y": taken(PICTURES, MEAN, DRAWN, 11), NOISE: DRAWN}, FEEDS),
            Step(take(11, "z", seed=8), {"z": taken(PICTURES, MEAN, DRAWN, 11), NOISE: DRAWN}),
            Step(take(4, "z"), {"z": taken(PICTURES, MEAN, DRAWN, 4), NOISE: DRAWN}),
            Step(take(12), fails=NumericError, text="has 11 numbers, noise_size is 12"),
            Step(take(11, noise_std=0.0), {"y": taken(PICTURES, MEAN, DRAWN, 11)}),
        ),
        stored=True,
    ),
    Sequence("given", (Step(take(7), {"y": taken(PICTURES, MEAN, GIVEN, 7)}, {**FEEDS, NOISE: GIVEN}),), stored=True),
    Sequence("none", (Step(take(5, noise_std=0.0), {"y": taken(PICTURES, MEAN, 0 * GIVEN, 5)}, FEEDS),), stored=True),
]


@on_sequences(KEPT)
def test_noise(case: Sequence) -> None:
    check_op(case)


def test_noise_is_a_blob_of_the_workspace() -> None:
    assert NOISE in touches(take(7)).writes
    home = Workspace()
    home.feed("x", PICTURES)
    home.feed("m", MEAN)
    home.run_operator(operator_def(IN, ["x", "m"], ["y"]))
    noise = home.fetch(NOISE)
    assert noise.shape == (491,)
    assert 8 < noise.std() < 12


X = np.random.default_rng(10).uniform(-200, 300, (2, 3, 5, 7)).astype(np.float32)
EDGES = np.tile(np.array([0.5, 254.99, 255.5, -0.5, -1e30, 1e30, np.inf, -np.inf, np.nan], "f"), (1, 3, 1, 1))
CASES = [
    Case(OUT, [X, MEAN], shown, batched=(0,)),
    Case(OUT, [X, MEAN[None]], shown(X, MEAN), batched=(0,), id="mean in a row"),
    Case(OUT, [EDGES, 0 * MEAN], shown, id="edges"),
    Case(OUT, [X[:, :, :0], MEAN], shown, id="no pixel"),
]


@on_all_engines(CASES)
def test_byte_by_byte(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_there_and_back() -> None:
    """Without noise a picture is what it was, but for alpha."""
    whole = np.array([1, 2, 3], np.float32)
    back = run_op(OUT, run_op(IN, PICTURES, whole, noise_std=0.0), whole)
    np.testing.assert_array_equal(back[..., :3], PICTURES[..., :3])
    assert (back[..., 3] == 255).all()


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    (IN, [PICTURES[..., :3], MEAN], {}, ShapeError, "dimension 3 must be 4"),
    (IN, [PICTURES[0], MEAN], {}, ShapeError, "X has rank 3"),
    (IN, [PICTURES, MEAN[:2]], {}, ShapeError, "mean has 2 elements"),
    (IN, [PICTURES.astype("f"), MEAN], {}, DTypeError, "X is float32"),
    (IN, [PICTURES, MEAN], {"noise_size": 0}, ArgumentError, "noise_size"),
    (IN, [PICTURES, MEAN], {"noise_std": -1.0}, ArgumentError, "noise_std"),
    (OUT, [X[:, :2], MEAN], {}, ShapeError, "dimension 1 must be 3"),
    (OUT, [X, MEAN[:2]], {}, ShapeError, "mean has 2 elements"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
