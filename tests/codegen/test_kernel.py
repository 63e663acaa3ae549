"""What is worth a thread, and which code a kernel comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tazza.codegen import kernel
from tazza.codegen.kernel import Sources
from tazza.runtime.machine import Machine


def test_threads_follow_what_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "THREAD_NS", 100)
    rates = Machine(2 / kernel.COMPUTE_SHARE, 4 / kernel.MEMORY_SHARE, 1)
    monkeypatch.setattr(kernel, "machine", lambda: rates)
    assert kernel.threads_for(8, 100, 0, 16) == 4, "1600 bytes take 400 ns"
    assert kernel.threads_for(8, 100, 6, 4) == 3, "600 operations take 300 ns"
    assert kernel.threads_for(2, 100, 6, 4) == 2
    assert kernel.threads_for(8, 0, 6, 4) == 1
    monkeypatch.setattr(kernel, "thread_count", lambda: 8)
    assert [kernel.threads_of(100, 0, 16, parts) for parts in (None, 3, 0)] == [4, 3, 1]


def test_a_change_below_the_folder_makes_new_kernels(tmp_path: Path) -> None:
    (tmp_path / "field").mkdir()
    (tmp_path / "field" / "family.py").write_text("one")
    before = Sources(tmp_path).digest
    (tmp_path / "field" / "family.py").write_text("two")
    after = Sources(tmp_path)
    assert after.digest != before
    assert after.version().startswith(after.digest)
