"""Matrices that are trains of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Sketch, draws


def extents(hand: Hand, count: int) -> tuple[list[int], list[int], list[int]]:
    """Return factors of rows and columns, and what stands between so many cores."""
    inner = [hand.integer(1, 3) for _ in range(count - 1)]
    return [hand.integer(1, 4) for _ in range(count)], [hand.integer(1, 4) for _ in range(count)], [1, *inner, 1]


@draws("TT")
def multiplied(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    count = hand.integer(1, 3)
    inp, out, ranks = extents(hand, count)
    size = sum(inp[k] * out[k] * ranks[k] * ranks[k + 1] for k in range(count))
    shapes = {"X": (hand.batch(), int(np.prod(inp))), "b": (int(np.prod(out)),), "cores": (size,)}
    return Sketch({"inp_sizes": inp, "out_sizes": out, "tt_ranks": ranks}, shapes)


@draws("TTSparseLengthsSum", "TTSparseLengthsSumGradient")
def looked_up(hand: Hand, schema: OpSchema) -> Sketch:
    i, j, r = extents(hand, 3)
    columns, lengths = hand.integer(1, 30), hand.rng.integers(0, 4, hand.integer(0, 4)).astype(np.int32)
    picked = int(lengths.sum())
    digits = np.stack([hand.rng.integers(0, n, picked) for n in i], axis=1)
    shapes: dict[str, Any] = {f"core{k}": (i[k], r[k], j[k], r[k + 1]) for k in range(3)}
    values: dict[str, Any] = {"lengths": lengths}
    if "dY" in schema.inputs_by_letter:
        shapes |= {"core0_output": (picked, j[0], r[1]), "core1_output": (picked, j[0] * j[1], r[2])}
        shapes["dY"] = (lengths.size, columns)
        values["indices"] = digits
    else:
        values["index"] = digits @ np.array([1, i[0], i[0] * i[1]])
    return Sketch({"factor_i": i, "factor_j": j, "ranks": r, "emb_size": columns}, shapes, values)
