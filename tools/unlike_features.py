"""Calls that `record_unlike` records: features and ids of examples in several groups, and rows of trains of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import Call, signed

IDS: dict[str, Any] = {"feature_ids": [31, 32]}
HAS = [np.array([True, False, True, True]), np.array([False, False, True, False])]
COUNTS = [np.array([2, 0, 0, 3], "i"), np.array([0, 0, 4, 0], "i")]
"""Items of two features that examples have as `HAS` says."""
LENGTHS = [np.array([1, 0, 2, 1], "i"), np.array([0, 3, 0, 2], "i")]
"""Features of two groups ..."""
EACH = [np.array([2, 0, 1, 3], "i"), np.array([1, 1, 0, 2, 4], "i")]
"""... and the items of each of these."""
TYPES = ("f", "q")


def items(k: int, dtype: str) -> dict[str, Any]:
    """Return keys and values of as many items as lists and maps of group k have."""
    total = int(EACH[k].sum())
    return {f"keys{k}": np.arange(total) * 7 % 11, f"x{k}": (signed(total, seed=k) * 9).astype(dtype)}


def merged() -> list[tuple[str, list[Call]]]:
    """Features that are merged, with floats and with whole numbers."""
    lists, counted = ["L", "ids", "counts", "X"], ["L", "ids", "counts", "keys", "X"]
    found: dict[str, list[Call]] = {}
    for dtype in TYPES:
        alone: dict[str, dict[str, Any]] = {"Scalar": {}, "List": {}, "Map": {}}
        groups: dict[str, dict[str, Any]] = {"Scalar": {}, "List": {}, "Map": {}}
        for k in range(2):
            own = (signed(4, seed=k) * 9).astype(dtype)
            total = int(COUNTS[k].sum())
            inner = {f"c{k}": COUNTS[k], f"keys{k}": np.arange(total) + 5 * k, f"x{k}": np.arange(total).astype(dtype)}
            alone["Scalar"].update({f"x{k}": own, f"p{k}": HAS[k]})
            alone["Map"].update({**inner, f"p{k}": HAS[k]})
            alone["List"].update({name: one for name, one in {**inner, f"p{k}": HAS[k]}.items() if "keys" not in name})
            head = {f"L{k}": LENGTHS[k], f"ids{k}": 50 + np.arange(EACH[k].size) * (k + 1)}
            groups["Scalar"].update({**head, f"x{k}": np.arange(EACH[k].size).astype(dtype) + 3})
            deep = {**head, f"c{k}": EACH[k], **items(k, dtype)}
            groups["Map"].update(deep)
            groups["List"].update({name: one for name, one in deep.items() if "keys" not in name})
        for kind, outputs in (("Scalar", ["L", "ids", "X"]), ("List", lists), ("Map", counted)):
            found.setdefault(f"MergeSingle{kind}FeatureTensors", []).append(Call(alone[kind], outputs, IDS))
            found.setdefault(f"MergeMulti{kind}FeatureTensors", []).append(Call(groups[kind], outputs, {}))
    dense = [
        Call({"X": signed(*shape), "p": signed(*shape, seed=1) > 0}, ["L", "ids", "Y"], {"feature_ids": [4, 9, 7]})
        for shape in ((5, 3), (2, 3))
    ]
    return [*found.items(), ("MergeDenseFeatureTensors", dense)]


def parted() -> list[tuple[str, list[Call]]]:
    """The gradients of what was merged."""
    structure = {
        "SingleScalar": [{"p0": HAS[0], "p1": HAS[1]}, {"p0": HAS[1]}],
        "MultiScalar": [{"L0": LENGTHS[0], "L1": LENGTHS[1]}, {"L0": LENGTHS[1]}],
    }
    for kind in ("List", "Map"):
        pairs = [{f"c{k}": COUNTS[k], f"p{k}": HAS[k]} for k in range(2)]
        structure[f"Single{kind}"] = [{**pairs[0], **pairs[1]}, pairs[1]]
        pairs = [{f"L{k}": LENGTHS[k], f"c{k}": EACH[k]} for k in range(2)]
        structure[f"Multi{kind}"] = [{**pairs[0], **pairs[1]}, pairs[1]]
    return [
        (
            f"Merge{name}FeatureTensorsGradient",
            [Call({**one, "g": signed(20)}, [f"dX{k}" for k in range(2 - i)], {}) for i, one in enumerate(each)],
        )
        for name, each in structure.items()
    ]


def listed() -> list[tuple[str, list[Call]]]:
    """Lists of ids that are united, and keys that are looked for."""
    ids = [np.array([7, 5, 5, -2, 9]), np.array([5, 8, 8, 7, 1, 2])]
    pairs: dict[str, Any] = {"L0": np.array([2, 0, 3], "i"), "v0": ids[0], "L1": np.array([1, 3, 2], "i"), "v1": ids[1]}
    keys = np.array([[2, 0, 3], [0, 2, 2]])
    return [
        (
            "MergeIdLists",
            [
                Call({name: value.astype("i") for name, value in pairs.items()}, ["L", "Y"], {}),
                Call({"L0": pairs["L1"], "v0": ids[1]}, ["L", "Y"], {}),
            ],
        ),
        (
            "KeySplit",
            [
                Call({"X": keys}, ["Y0", "Y1", "Y2", "Y3"], {"categorical_limit": 4}),
                Call({"X": keys[1] // 2}, ["Y0", "Y1"], {"categorical_limit": 2}),
            ],
        ),
    ]


def trains() -> list[tuple[str, list[Call]]]:
    """Trains of tensors that multiply one row, or are looked up, with an embedding of other extents than theirs."""
    multiplied: list[Call] = []
    for inp, out, ranks in (([2, 3, 4], [3, 2, 5], [1, 2, 3, 1]), ([3, 2], [4, 5], [1, 2, 1])):
        size = sum(inp[k] * out[k] * ranks[k] * ranks[k + 1] for k in range(len(inp)))
        inputs = {"X": signed(1, *inp), "b": signed(int(np.prod(out)), seed=1), "G": signed(size, seed=2)}
        multiplied.append(Call(inputs, ["Y"], {"inp_sizes": inp, "out_sizes": out, "tt_ranks": ranks}))
    looked: list[Call] = []
    back: list[Call] = []
    factors = {"factor_i": [2, 3, 4], "factor_j": [2, 1, 3], "ranks": [1, 2, 3, 1]}
    for columns, lengths in ((6, [2, 0, 3]), (8, [1, 3])):
        cores = {f"G{k}": signed(*s, seed=k) for k, s in enumerate(((2, 1, 2, 2), (3, 2, 1, 3), (4, 3, 3, 1)))}
        rows, L = np.array([0, 5, 23, 7, 5]), np.array(lengths, "i")
        arguments = {**factors, "emb_size": columns}
        looked.append(Call({**cores, "i": rows, "L": L}, ["Y", "a", "b", "d"], arguments))
        digits = np.stack([rows % 2, rows // 2 % 3, rows // 6], 1)
        one = cores["G0"].reshape(2, 2, 2)[digits[:, 0]]
        two = (one @ cores["G1"].reshape(3, 2, 3)[digits[:, 1]]).reshape(5, 2, 3)
        kept = {"a": one, "b": two, "d": digits, "dY": signed(len(lengths), columns, seed=5)}
        back.append(Call({**cores, "L": L, **kept}, ["d0", "d1", "d2"], arguments))
    return [("TT", multiplied), ("TTSparseLengthsSum", looked), ("TTSparseLengthsSumGradient", back)]
