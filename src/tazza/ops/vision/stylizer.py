"""Pictures as phones have them, and back: the two ends of a net that changes the style of a picture.

Letters: N pictures, H and W height and width. A packed picture is (N, H, W, 4) in bytes: blue, green, red and alpha,
which is not read and is 255 in the end. A net takes and gives (N, 3, H, W) in float32 without the mean of each channel.

PackedInt8BGRANHWCToNCHWCStylizerPreprocess adds noise, which hides seams in flat areas. It is drawn once for a
workspace, into the blob `__CAFFE2_STYLIZER_NOISE__`, by the first of these operators that runs; channel c of pixel p,
counted from 0 in each picture, gets number (3 p + c) mod `noise_size` of it. Who feeds that blob chooses the noise.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.device import Generator
from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    Array,
    BlobOwner,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    host_kernel,
    kernel,
    not_written,
    schema,
    streamed,
)
from tazza.operator.touches import Touched
from tazza.tensor import Blob, DataType, Tensor, TensorSpec

NOISE = "__CAFFE2_STYLIZER_NOISE__"
"""The blob of a workspace that keeps the noise; Caffe2's name for it."""
NO_GRADIENT = not_written("pictures come from outside of a net")
MEAN = blob("mean", FLOAT, role=Role.PARAMETER, doc="of blue, green and red: three numbers")

STYLIZER_PREPROCESS = schema(
    "PackedInt8BGRANHWCToNCHWCStylizerPreprocess",
    "Y[n, c, h, w] = X[n, h, w, c] - mean[c] + noise.",
    inputs=[blob("X", DataType.UINT8, "N H W 4"), MEAN],
    outputs=[blob("Y", FLOAT)],
    args=[
        arg("noise_std", float, 10.0, minimum=0, doc="deviation of the noise"),
        arg("noise_size", int, 491, minimum=1, maximum=2**27, doc="how many numbers are drawn"),
    ],
    effects=Effects.WORKSPACE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> X, mean = np.array([[[[9, 8, 7, 255]]]], np.uint8), np.array([1.0, 2.0, 3.0], "f")
    >>> run("PackedInt8BGRANHWCToNCHWCStylizerPreprocess", X, mean, noise_std=0.0).ravel()
    array([8., 6., 4.], dtype=float32)
    """,
)
STYLIZER_DEPROCESS = schema(
    "BRGNCHWCToPackedInt8BGRAStylizerDeprocess",
    "Y[n, h, w, c] = X[n, c, h, w] + mean[c], within 0 and 255 and rounded down; the fourth channel is 255.",
    inputs=[blob("X", FLOAT, "N 3 H W"), MEAN],
    outputs=[blob("Y", DataType.UINT8)],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> X, mean = np.array([8.0, 6.5, 999.0], "f").reshape(1, 3, 1, 1), np.array([1.0, 2.0, 3.0], "f")
    >>> run("BRGNCHWCToPackedInt8BGRAStylizerDeprocess", X, mean).ravel()
    array([  9,   8, 255, 255], dtype=uint8)
    """,
)
STYLIZER_DEPROCESS.batched("X")


@STYLIZER_PREPROCESS.touches
def stylizer_preprocess_touches(op: OpView) -> Touched:
    return Touched(writes=(NOISE,), certain=frozenset(op.definition.output))


@STYLIZER_PREPROCESS.infer
def stylizer_preprocess_infer(op: OpView, X: TensorSpec, mean: TensorSpec) -> TensorSpec:
    _check_mean(op, mean)
    if X.dims is None:
        return TensorSpec(None, DataType.FLOAT)
    N, H, W, _ = X.dims
    return TensorSpec((N, 3, H, W), DataType.FLOAT)


@STYLIZER_PREPROCESS.cost
def stylizer_preprocess_cost(op: OpView, X: TensorSpec, mean: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, mean), (Y,), flops=2 * Y.size)


@host_kernel(STYLIZER_PREPROCESS)
def stylizer_preprocess(op: OpView, workspace: BlobOwner, random: Generator, X: Blob, mean: Blob, Y: Blob) -> None:
    _check_mean(op, mean.tensor().spec)
    pictures = X.tensor().plain()[..., :3].astype(np.float32)
    noise = _noise(op, workspace.create_blob(NOISE), random)
    _, H, W, _ = pictures.shape
    each = np.resize(noise[: op.noise_size], (H, W, 3))  # goes round: number 3 p + c of those that there are
    result = pictures - mean.tensor().plain().reshape(3) + each
    Y.tensor().assign(np.ascontiguousarray(result.transpose(0, 3, 1, 2)))


def _noise(op: OpView, kept: Blob, random: Generator) -> Array:
    """Return the noise of a workspace, drawn if there is none yet.

    Raises:
        NumericError: what is there is too short.
    """
    if kept.is_empty:
        kept.tensor().assign(random.gaussian(op.noise_size, 0.0, op.noise_std))
    noise = kept.get(Tensor).plain().reshape(-1)
    if noise.size < op.noise_size:
        hint = f"remove the blob, or draw {noise.size} numbers first with the largest noise_size"
        raise op.error(NumericError, f"{NOISE} has {noise.size} numbers, noise_size is {op.noise_size}", hint)
    return noise


@STYLIZER_DEPROCESS.infer
def stylizer_deprocess_infer(op: OpView, X: TensorSpec, mean: TensorSpec) -> TensorSpec:
    _check_mean(op, mean)
    if X.dims is None:
        return TensorSpec(None, DataType.UINT8)
    N, _, H, W = X.dims
    return TensorSpec((N, H, W, 4), DataType.UINT8)


@STYLIZER_DEPROCESS.cost
def stylizer_deprocess_cost(op: OpView, X: TensorSpec, mean: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, mean), (Y,), flops=3 * X.size)


@kernel(STYLIZER_DEPROCESS)
def stylizer_deprocess(X: Array, mean: Array, Y: Array) -> None:
    shown = np.nan_to_num(np.clip(X + mean.reshape(3, 1, 1), 0, 255), copy=False, nan=0)
    Y[..., :3] = shown.transpose(0, 2, 3, 1).astype(np.uint8)
    Y[..., 3] = 255


def _check_mean(op: OpView, mean: TensorSpec) -> None:
    if mean.shape_known:
        op.require(mean.size == 3, f"mean has {mean.size} elements, it must have one for blue, green and red")
