"""Matrices as tensor trains, for the operator TT.

A train is a list of cores, one behind the other in a vector; core k has the shape ranks[k], inputs[k], outputs[k],
ranks[k + 1].

Source: Oseledets 2011, Tensor-Train Decomposition; Novikov and others 2015, Tensorizing Neural Networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray


def _check(inp_sizes: Sequence[int], out_sizes: Sequence[int], tt_ranks: Sequence[int]) -> None:
    widths, told = (len(inp_sizes), len(out_sizes), len(tt_ranks)), "input dimensions, output dimensions and ranks"
    assert widths[0] == widths[1] == widths[2] - 1, f"there are {widths} {told}; ranks are one more than the others"


def init_tt_cores(
    inp_sizes: Sequence[int], out_sizes: Sequence[int], tt_ranks: Sequence[int], seed: int = 1234
) -> NDArray[np.float32]:
    """Return random cores, of which all but the last are orthogonal, scaled as Glorot and Bengio do."""
    _check(inp_sizes, out_sizes, tt_ranks)
    random = np.random.RandomState(seed)
    carried: Any = 1
    cores: list[NDArray[Any]] = []
    for position, (rows, columns, (before, behind)) in enumerate(
        zip(inp_sizes, out_sizes, pairwise(tt_ranks), strict=True)
    ):
        core = np.dot(carried, random.normal(0, 1, size=(before, rows * columns * behind)))
        core = core.reshape(before * rows * columns, behind)
        if position < len(inp_sizes) - 1:
            core, carried = np.linalg.qr(core)
        cores.append(core.reshape(-1))
    glorot = (prod(inp_sizes) * prod(tt_ranks)) ** (1.0 / len(inp_sizes))
    return (0.1 / glorot) * np.concatenate(cores).astype(np.float32)


def matrix_to_tt(
    W: NDArray[Any], inp_sizes: Sequence[int], out_sizes: Sequence[int], tt_ranks: Sequence[int]
) -> NDArray[np.float32]:
    """Return the cores of a matrix of shape inputs, outputs, in the order and with the axes that the operator reads."""
    _check(inp_sizes, out_sizes, tt_ranks)
    for axis, sizes in enumerate((inp_sizes, out_sizes)):
        assert W.shape[axis] == prod(sizes), f"axis {axis} of W has {W.shape[axis]} elements, {sizes} {prod(sizes)}"
    count = len(inp_sizes)
    pairs = [axis for position in range(count) for axis in (position, count + position)]
    merged = np.asarray(inp_sizes) * np.asarray(out_sizes)
    paired = W.T.reshape(*inp_sizes, *out_sizes).transpose(pairs).reshape(merged)
    shapes = [
        (before, rows, columns, behind)
        for rows, columns, (before, behind) in zip(inp_sizes, out_sizes, pairwise(tt_ranks), strict=True)
    ]
    ends = np.cumsum([prod(shape) for shape in shapes])[:-1]
    cores = np.split(tt_svd(paired, merged, tt_ranks), ends)
    turned = [core.reshape(shape).transpose(1, 3, 0, 2).reshape(-1) for core, shape in zip(cores, shapes, strict=True)]
    return np.concatenate(turned[::-1]).astype(np.float32)


def tt_svd(W: NDArray[Any], sizes: NDArray[Any], tt_ranks: Sequence[int]) -> NDArray[np.float32]:
    """Return the cores of a tensor, by singular values that are cut off behind each rank."""
    assert len(tt_ranks) == len(sizes) + 1
    left: Any = W
    cores: list[NDArray[Any]] = []
    for size, (before, behind) in zip(sizes[:-1], pairwise(tt_ranks), strict=False):
        U, S, V = np.linalg.svd(left.reshape(before * size, -1), full_matrices=False)
        cores.append(U[:, :behind].reshape(-1))
        left = np.dot(np.diag(S[:behind]), V[:behind])
    return np.concatenate([*cores, left.reshape(-1)]).astype(np.float32)


def fc_net_to_tt_net(net: Any) -> None:
    """Do nothing, as it did."""
