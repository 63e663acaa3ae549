"""Versions of blobs."""

from __future__ import annotations

from tazza.graph import VersionedOps
from tazza.operator import operator_def


def test_each_write_makes_a_version() -> None:
    ssa = VersionedOps(
        [operator_def("A", ["x"], ["y"]), operator_def("B", ["y", "x"], ["x"]), operator_def("C", ["x"], ["x"])]
    )
    assert [(v.read, v.written) for v in ssa.ops] == [
        ({"x": 0}, {"y": 0}),
        ({"y": 0, "x": 0}, {"x": 1}),
        ({"x": 1}, {"x": 2}),
    ]
    assert ssa.readers["x", 0] == [0, 1]
    assert ssa.is_read("y")
    assert not ssa.is_read("z")
