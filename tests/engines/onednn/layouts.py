"""Runs of an operator whose images lie as oneDNN may leave them, held against the reference engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tazza.device import current_context
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.library import check, constant, ffi, lib
from tazza.operator import Array, LocalBlobs, NativeCall, Operator, operator_def
from tazza.operator.native_calls import NativeCalls
from tazza.operator.reorder import relayout
from tazza.tensor import ROW_MAJOR, CPUPlace, Layout, Opaque, Tensor, channels_last
from tests.check import assert_close, assert_ran

Ways = Callable[[Sequence[int]], Layout]


def row_major(dims: Sequence[int]) -> Layout:
    """Return the layout of a plain tensor."""
    del dims
    return ROW_MAJOR


def blocked(dims: Sequence[int]) -> Layout:
    """Return the layout of (N, C, ...) with blocks of 16 channels inside."""
    letters = "aBcde"[: len(dims)]
    made = ffi.new("dnnl_memory_desc_t *")
    tag = constant(f"dnnl_{letters}16b")
    check(lib.dnnl_memory_desc_create_with_tag(made, len(dims), tuple(dims), constant("dnnl_f32"), tag), "blocked")
    found = Descriptor(made[0])
    return Opaque("onednn", found, found.nbytes)


@dataclass(frozen=True)
class Relaid:
    """An operator whose inputs `images` lie in another way; with `in_place` output 0 is that input."""

    type: str
    inputs: Sequence[Array]
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    images: Collection[int] = (0,)
    outputs: int = 1
    in_place: dict[int, int] = field(default_factory=dict[int, int])
    slack: float = 1.0
    engine: str = "onednn"

    def run(self, engine: str, way: Ways) -> tuple[list[Array], Operator]:
        """Return the outputs on an engine, row-major, and the operator, which has run."""
        blobs = LocalBlobs()
        names = [f"in{i}" for i in range(len(self.inputs))]
        for i, (name, array) in enumerate(zip(names, self.inputs, strict=True)):
            tensor = Tensor.from_numpy(np.array(array))
            if i in self.images:
                relayout(tensor, way(array.shape), current_context(CPUPlace()))
            blobs.create_blob(name).set(tensor)
        results = [names[self.in_place[i]] if i in self.in_place else f"out{i}" for i in range(self.outputs)]
        operator = Operator(operator_def(self.type, names, results, engine=engine, **self.args), blobs)
        operator.run()
        assert_ran(operator, engine)
        return [np.array(blob.tensor().plain()) for blob in operator.outputs], operator


def check_ways(case: Relaid, ways: Sequence[Ways] = (row_major, channels_last, blocked)) -> None:
    """Assert that each way gives what the reference gives, by native calls alone, and output 0 in that way."""
    expected, _ = case.run("reference", row_major)
    for way in ways:
        got, operator = case.run(case.engine, way)
        for one, wanted in zip(got, expected, strict=True):
            assert_close(one, wanted, case.slack)
        assert isinstance(operator.ready(), (NativeCall, NativeCalls)), way
        target = operator.outputs[0].tensor()
        assert target.layout == way(target.shape), way


def numbers(*dims: int) -> Array:
    """Return float32 numbers around 0, the same in every run."""
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(np.float32)
