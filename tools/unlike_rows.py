"""Calls that `record_unlike` records: rows of tables in few bits, and what is looked up in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import Call, signed

SHAPES = ((3, 8), (5, 12))
INDICES = [np.array([2, 0, 2, 1], "q"), np.array([4, 1, 1, 0, 3, 3], "i")]
LENGTHS = [np.array([1, 0, 3], "i"), np.array([2, 4], "i")]
MAPPINGS = [np.array([2, 0, -1], "i"), np.array([1, -1, 0, 4, 3], "i")]
CODES = [np.arange(24, dtype="B").reshape(3, 8) * 9, np.arange(60, dtype="B").reshape(5, 12) * 4]


def halves(x: Any) -> Any:
    """Return numbers in half precision."""
    return x.astype(np.float16)


def bytes_of(bits: int, scalars: str) -> list[Any]:
    """Return the bytes of rows with codes of so many bits, and scale and bias of a type."""
    tables: list[Any] = []
    for i, codes in enumerate(CODES):
        width = codes.shape[1] * bits // 8
        pairs = np.stack([1.5 ** np.arange(len(codes)), signed(len(codes), seed=i)], axis=1).astype(scalars)
        tables.append(np.concatenate([codes[:, :width] * (1 + i), pairs.view("B")], axis=1))
    return tables


def in_few_bits() -> list[tuple[str, list[Call]]]:
    """Rows of numbers to bytes, and back."""
    plain = [signed(*shape, seed=i) for i, shape in enumerate(SHAPES)]
    found: list[tuple[str, list[Call]]] = []
    for prefix, rows in (("Float", plain), ("Half", [halves(x) for x in plain])):
        whole = "HalfFloat" if prefix == "Half" else "Float"
        names = [f"{whole}ToFused8BitRowwiseQuantized", f"{whole}ToFused8BitRowwiseQuantizedHalfScaleBias"]
        found += [(name, [Call({"X": x}, ["Y"], {}) for x in rows]) for name in names]
        for bits in (4, 2):
            for fake in ("", "Fake"):
                calls = [
                    Call({"X": x}, ["Y"], {"engine": engine} if engine else {})
                    for x in rows
                    for engine in ("", "GREEDY")
                ]
                found.append((f"{prefix}ToFused{bits}Bit{fake}RowwiseQuantized", calls))
    backs = (
        ("Fused8BitRowwiseQuantizedTo", ("Float", "HalfFloat"), 8, "f"),
        ("Fused8BitRowwiseQuantizedHalfScaleBiasTo", ("Float", "HalfFloat"), 8, "e"),
        ("Fused4BitRowwiseQuantizedTo", ("Float", "Half"), 4, "e"),
        ("Fused2BitRowwiseQuantizedTo", ("Float", "Half"), 2, "e"),
    )
    for name, targets, bits, scalars in backs:
        found += [(name + to, [Call({"X": x}, ["Y"], {}) for x in bytes_of(bits, scalars)]) for to in targets]
    by_chance = [Call({"X": x}, ["Y"], {"bitwidth": bits, "random": 0}) for x in plain for bits in (1, 2, 4, 8)]
    heads = [
        np.concatenate([np.full((len(codes), 1), 2, "B"), np.ones((len(codes), 1), "B")], axis=1) for codes in CODES
    ]
    ranges = [np.stack([signed(len(codes)), 2 + np.arange(len(codes), dtype="f")], axis=1).view("B") for codes in CODES]
    kept = [np.concatenate(parts, axis=1) for parts in zip(heads, ranges, CODES)]  # noqa: B905 -- Python 3.8
    return [
        *found,
        ("FloatToRowwiseQuantized8Bits", [Call({"X": x}, ["Y", "s"], {}) for x in plain]),
        ("Rowwise8BitQuantizedToFloat", [Call({"X": c, "s": signed(len(c), 2)}, ["Y"], {}) for c in CODES]),
        ("FloatToFusedRandRowwiseQuantized", by_chance),
        ("FusedRandRowwiseQuantizedToFloat", [Call({"X": x}, ["Y"], {}) for x in kept]),
        (
            "GatherFused8BitRowwise",
            [Call({"D": d, "i": i}, ["Y"], {}) for d, i in zip(bytes_of(8, "f"), INDICES)],  # noqa: B905
        ),
    ]


def picked() -> list[tuple[str, list[Call]]]:
    """Sums and means of rows that are looked up."""
    found: list[tuple[str, list[Call]]] = []

    def calls(tables: list[Any], weighted: bool, tails: list[dict[str, Any]]) -> list[Call]:
        return [
            Call(
                {"D": d, **({"w": signed(i.size)} if weighted else {}), "i": i, "l": n, **tail},
                ["Y"],
                {},
            )
            for d, i, n, tail in zip(tables, INDICES, LENGTHS, tails)  # noqa: B905
        ]

    pairs = [{"s": signed(len(codes), 2)} for codes in CODES]
    maps = [{"m": one} for one in MAPPINGS]
    none: list[dict[str, Any]] = [{}, {}]
    for reducer in ("Sum", "WeightedSum", "Mean", "WeightedMean"):
        weighted = reducer.startswith("Weighted")
        found.append((f"SparseLengths{reducer}8BitsRowwise", calls(CODES, weighted, pairs)))
        for bits, scalars in ((8, "f"), (4, "e"), (2, "e")) if reducer != "WeightedMean" else ():
            tables = bytes_of(bits, scalars)
            found.append((f"SparseLengths{reducer}Fused{bits}BitRowwise", calls(tables, weighted, none)))
            found.append((f"SparseLengths{reducer}{bits}BitRowwiseSparse", calls(tables, weighted, maps)))
    both = [
        Call({"i": i, "l": n, "m": m, "w": signed(i.size)}, ["Y", "n", "v"], {})
        for i, n, m in zip(INDICES, LENGTHS, MAPPINGS)  # noqa: B905
    ]
    return [*found, ("SparseLengthsSumSparseLookup", both)]
