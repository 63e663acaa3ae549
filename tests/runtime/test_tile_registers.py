"""Tile registers are used where the processor has them, and nowhere else."""

from __future__ import annotations

import pytest

from tazza.runtime import tile_registers
from tazza.runtime.native_code import Processor


def test_a_processor_without_them_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tile_registers.tile_registers.__wrapped__
    for features in ("+avx512f", "+avx512f,+amx_tile", "+amx_tile,+amx_bf16"):
        one = Processor("one", features)
        monkeypatch.setattr(tile_registers, "processor", lambda one=one: one)
        assert not asked()
