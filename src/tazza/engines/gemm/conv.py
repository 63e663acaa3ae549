"""Convolution by matrix products: im2col and one GEMM for each image, groups as a strided-batched GEMM.

Letters as in `ops.conv` and `column`; R = C/G * K. With the columns A (G, R, P) of image n, W as (G, M/G, R), y = Y[n]
and dy = dY[n] as (G, M/G, P), and 1 a vector of ones:

    y  = W A + b 1^T            dW = sum over n of dy A^T
    db = sum over n of dy 1     dX[n] = col2im(W^T dy)

A kernel of one element that neither pads nor strides needs no columns: A is the image itself, and the products over all
images are one strided-batched GEMM (NHWC: one GEMM over N*P rows).

A GEMM here cannot add to what is there, so sums over images and the bias are additions of their own. Views with the
channels last are transposed, which BLAS takes as it is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.gemm.column import Columns, Shape, Step
from tazza.engines.gemm.memory import SharedBuffer, carve, chain, scratch_bytes
from tazza.operator import Array, Call, Launch, Operands, Operator, OpView, Spec, Unsupported, contiguous, launcher
from tazza.ops.nn.conv import CONV_GRADIENTS, CONVS, conv_window, shares_buffer
from tazza.runtime.blas import WithBlasThreads, threads_for
from tazza.tensor import TensorSpec

MOST_BEYOND = 1 << 14
"""How far windows may reach beyond the image: it is padded in memory."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of one convolution; `columns` is None where the image itself will do."""

    N: int
    G: int
    C: int
    M: int
    P: int
    last: bool
    columns: Columns | None

    def rows(self, Y: Array) -> Array:
        """Return the view (N, M, P) of Y or dY."""
        return Y.reshape(self.N, self.P, self.M).swapaxes(1, 2) if self.last else Y.reshape(self.N, self.M, self.P)

    @property
    def R(self) -> int:
        """Rows of A: C/G * K."""
        return self.C // self.G * (1 if self.columns is None else self.columns.window.size)

    def grouped(self, image: Array, channels: int) -> Array:
        """Return the view (N, G, channels/G, P) of Y or dY, and of X or dX where the image itself will do."""
        if self.last:
            return image.reshape(self.N, self.P, self.G, channels // self.G).transpose(0, 2, 3, 1)
        return image.reshape(self.N, self.G, channels // self.G, self.P)

    def filters(self, W: Array) -> Array:
        """Return the view (G, M/G, R) of W or dW."""
        return W.reshape(self.G, self.M // self.G, self.R)

    @property
    def threads(self) -> int:
        """How many threads one of the matrix products is worth."""
        return threads_for(2 * self.M // self.G * self.R * self.P)

    @property
    def merged(self) -> Sizes:
        """The same with the rows of all images in one matrix, which they are when the channels stand last."""
        return replace(self, N=1, P=self.N * self.P) if self.last else self


def describe(op: OpView, X: TensorSpec, W: TensorSpec) -> Sizes:
    """Return the sizes of a convolution of these inputs."""
    window, sizes = conv_window(op, X.shape, W.shape)
    if window.far > MOST_BEYOND:
        raise Unsupported(f"{window} reaches far beyond the image")
    out = cast("Shape", sizes)
    last = op.order.upper() == "NHWC"
    image, C = (X.shape[1:-1], X.shape[-1]) if last else (X.shape[2:], X.shape[1])
    pointwise = window.size == 1 and set(window.stride) == {1} and not any((*window.head, *window.tail))
    columns = None if pointwise else Columns(window, tuple(image), out, op.group, C // op.group, op.order)
    return Sizes(X.shape[0], op.group, C, W.shape[0], math.prod(out), last, columns)


@dataclass(frozen=True, slots=True)
class Products(ABC):
    """A launch that mixes matrix products with columns; `letters` are those of the operator."""

    sizes: Sizes
    letters: frozenset[str]
    shared: bool = False
    """Whether the columns are those of the workspace."""
    capturable: bool = False

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of scratch memory, of columns first."""
        columns, shapes = self.sizes.columns, dict[str, Shape]()
        if columns is not None and columns.stage_shape is not None:
            shapes["stage"] = columns.stage_shape
        if columns is not None and not self.shared:
            shapes["columns"] = columns.shape
        return shapes

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory."""
        return scratch_bytes(self.shapes)

    @abstractmethod
    def bind(self, operands: Operands) -> Call:
        """Make the views; a call then copies columns, multiplies and sums."""


class ConvLaunch(Products):
    """Y from X, W and b."""

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of scratch memory."""
        s = self.sizes
        bias: dict[str, Shape] = {"bias": (1, s.P, s.M) if s.last else (1, s.M, s.P)} if "b" in self.letters else {}
        return bias | super().shapes

    def bind(self, operands: Operands) -> Call:
        """Make the views; a call then copies columns and multiplies."""
        memory = carve(operands.scratch, self.shapes)
        X, W, Y = (operands[letter].array for letter in ("X", "W", "Y"))
        bias = self._bias(operands, memory)
        columns = self.sizes.columns
        if columns is None:
            return WithBlasThreads(self.sizes.merged.threads, chain(self._pointwise(X, W, Y, bias)))
        work = partial(self._by_columns, columns, (X, W, Y), memory.get("stage"), bias)
        shared = cast("SharedBuffer", operands.state)
        call = shared.call(columns.shape, work) if self.shared else work(memory["columns"])
        return WithBlasThreads(self.sizes.threads, call)

    def _bias(self, operands: Operands, memory: dict[str, Array]) -> tuple[Step, Array] | None:
        """Return how b 1^T is made, once for all images, and where it stands: (M, P)."""
        if "b" not in self.letters:
            return None
        plane = replace(self.sizes, N=1).rows(memory["bias"])[0]
        ones = np.ones((1, self.sizes.P), np.float32)
        return partial(np.matmul, operands["b"].array.reshape(-1, 1), ones, plane), plane

    def _pointwise(self, X: Array, W: Array, Y: Array, bias: tuple[Step, Array] | None) -> list[Step]:
        sizes = self.sizes.merged
        steps: list[Step] = [partial(np.matmul, sizes.filters(W), sizes.grouped(X, sizes.C), sizes.grouped(Y, sizes.M))]
        if bias is not None:
            y = self.sizes.rows(Y)
            steps += [bias[0], partial(np.add, y, bias[1], y)]
        return steps

    def _by_columns(
        self,
        columns: Columns,
        arrays: Sequence[Array],
        stage: Array | None,
        bias: tuple[Step, Array] | None,
        buffer: Array,
    ) -> Call:
        X, W, Y = arrays
        w, A = self.sizes.filters(W), columns.matrix(buffer)
        steps: list[Step] = [] if bias is None else [bias[0]]
        for fill, y, plain in zip(
            columns.im2col(X, buffer, stage), self.sizes.grouped(Y, self.sizes.M), self.sizes.rows(Y), strict=True
        ):
            steps += [*fill, partial(np.matmul, w, A, y)]
            if bias is not None:
                steps.append(partial(np.add, plain, bias[1], plain))
        return chain(steps)


class ConvGradientLaunch(Products):
    """dW, db and dX from X, W and dY; db and dX only where they are asked for."""

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of scratch memory; the sums of col2im are called fold0, fold1 ..."""
        s, columns = self.sizes, self.sizes.columns
        shapes: dict[str, Shape] = {"product": (s.G, s.M // s.G, s.R), **super().shapes}
        if "db" in self.letters:
            shapes["sums"] = (s.N, s.M)
        if columns is not None and "dX" in self.letters:
            shapes |= {f"fold{i}": shape for i, shape in enumerate(columns.fold_shapes)}
        return shapes

    def bind(self, operands: Operands) -> Call:
        """Make the views; a call then copies columns, multiplies and sums."""
        memory = carve(operands.scratch, self.shapes)
        columns = self.sizes.columns
        steps = self._pointwise(operands, memory) if columns is None else self._by_columns(columns, operands, memory)
        if "db" in self.letters:
            dy, db, sums = self.sizes.rows(operands["dY"].array), operands["db"].array, memory["sums"]
            ones = np.ones(self.sizes.P, np.float32)
            steps += [partial(np.matmul, dy, ones, sums), partial(np.add.reduce, sums, 0, None, db)]
        return WithBlasThreads(self.sizes.threads, chain(steps))

    def _pointwise(self, operands: Operands, memory: dict[str, Array]) -> list[Step]:
        sizes = self.sizes.merged
        x, dy = sizes.grouped(operands["X"].array, sizes.C), sizes.grouped(operands["dY"].array, sizes.M)
        dw = sizes.filters(operands["dW"].array)
        steps = [step for i in range(len(x)) for step in _accumulate(i, dy[i], x[i], dw, memory["product"])]
        if not steps:
            steps.append(partial(dw.fill, 0))
        if "dX" in self.letters:
            w, dx = sizes.filters(operands["W"].array), sizes.grouped(operands["dX"].array, sizes.C)
            steps.append(partial(np.matmul, w.swapaxes(1, 2), dy, dx))
        return steps

    def _by_columns(self, columns: Columns, operands: Operands, memory: dict[str, Array]) -> list[Step]:
        buffer, A = memory["columns"], columns.matrix(memory["columns"])
        w, dw = (self.sizes.filters(operands[letter].array) for letter in ("W", "dW"))
        fills = columns.im2col(operands["X"].array, buffer, memory.get("stage"))
        folds: list[list[Step]] = [[] for _ in fills]
        if "dX" in self.letters:
            stages = [memory[name] for name in memory if name.startswith("fold")]
            folds = columns.col2im(buffer, operands["dX"].array, stages)
        steps: list[Step] = [] if fills else [partial(dw.fill, 0)]
        for i, dy in enumerate(self.sizes.grouped(operands["dY"].array, self.sizes.M)):
            steps += [*fills[i], *_accumulate(i, dy, A, dw, memory["product"])]
            if folds[i]:
                steps += [partial(np.matmul, w.swapaxes(1, 2), dy, A), *folds[i]]
        return steps


def _accumulate(image: int, dy: Array, A: Array, dw: Array, product: Array) -> list[Step]:
    """Return the steps dw += dy A^T; the first image writes what the others add to."""
    if image == 0:
        return [partial(np.matmul, dy, A.swapaxes(1, 2), dw)]
    return [partial(np.matmul, dy, A.swapaxes(1, 2), product), partial(np.add, dw, product, dw)]


def open_buffer(operator: Operator) -> SharedBuffer:
    """Make the column buffer of the workspace with the first operator that wants it."""
    shared = SharedBuffer(operator.workspace)
    if shares_buffer(operator.op):
        shared.create()
    return shared


def _row_major(letter: str, spec: Spec) -> bool:
    """A GEMM reads rows; everything else is reordered for it."""
    del letter
    return contiguous(spec)


def prepare_conv(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    del context
    letters = (*op.input_letters, *op.output_letters)
    blobs = zip(letters, (*inputs, *outputs), strict=True)
    strided = [f"{letter} is {spec}" for letter, spec in blobs if not contiguous(spec)]
    if strided:
        raise Unsupported(f"{', '.join(strided)}: a GEMM needs row-major")
    sizes = describe(op, *cast("tuple[TensorSpec, TensorSpec]", tuple(inputs[:2])))
    backward = op.schema in CONV_GRADIENTS
    return (ConvGradientLaunch if backward else ConvLaunch)(
        sizes, frozenset(letters), not backward and shares_buffer(op)
    )


for _schema in (*CONVS, *CONV_GRADIENTS):
    _open = open_buffer if _schema in CONVS else None
    launcher(_schema, engine="gemm", open=_open, accepts=_row_major)(prepare_conv)
