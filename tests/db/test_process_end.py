"""A process ends although one of its threads holds the lock of a database: what is collected last waits for nobody."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tazza.db import DBReader, Mode, open_db
from tazza.db.lmdb import LMDB
from tests.patience import LONG_S


def ends(act: Callable[[], object]) -> bool:
    """Whether a function comes back."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(LONG_S)
    return not thread.is_alive()


def test_a_reader_that_is_collected_last_waits_for_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter stops all other threads where they are, and then collects what is left."""
    with open_db("lmdb", tmp_path / "db", Mode.NEW) as db, db.transaction() as transaction:
        transaction.put(b"a", b"1")
    kept = [DBReader("lmdb", tmp_path / "db")]
    kept[0].read()
    opened = kept[0]._opened  # pyright: ignore[reportPrivateUsage] -- whose lock a stopped thread holds
    assert opened is not None
    assert isinstance(opened.db, LMDB)
    with opened.db.environment.lock, monkeypatch.context() as patch:
        patch.setattr(sys, "is_finalizing", lambda: True)
        assert ends(kept.clear)
    opened.db.close()
