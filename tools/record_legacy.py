"""Record what the programs of `examples/legacy` give; run by the Python that has the genuine Caffe2.

python tools/record_legacy.py copy tests/data/db/mnist.lmdb DATABASE        by ours: the wheel has no LMDB
PYTHON_OF_CAFFE2 tools/record_legacy.py run DATABASE tests/data/legacy.npz
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from typing import Any

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "legacy")
PROGRAMS = (
    *("toy_regression", "mnist", "predict_pair", "fine_tuning", "adversarial"),
    *("control_flow", "reader_queue", "char_rnn", "sparse_rowwise"),
)
"""In this order: three behind the second read what it leaves."""
ALONE = ("toy_regression", "control_flow", "char_rnn", "sparse_rowwise")
"""Programs that read and write no files."""


def program(name: str) -> Any:
    """Return a program as a module."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(FOLDER, name + ".py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_all(db: str, db_type: str, folder: str) -> dict[str, Any]:
    """Return what all programs give, as `program/name`."""
    arguments: dict[str, tuple[Any, ...]] = {name: (folder,) for name in PROGRAMS}
    arguments.update(dict.fromkeys(ALONE, ()), mnist=(db, db_type, folder))
    found: dict[str, Any] = {}
    for name in PROGRAMS:
        given = program(name).main(*arguments[name])
        found.update((f"{name}/{key}", value) for key, value in given.items())
    return found


def copy(source: str, target: str) -> None:
    """Copy the records of an LMDB into a minidb."""
    from caffe2.python import workspace

    read, write = (getattr(workspace.C.Mode, mode) for mode in ("read", "write"))
    cursor = workspace.C.create_db("lmdb", source, read).new_cursor()
    writing = workspace.C.create_db("minidb", target, write).new_transaction()
    while True:
        writing.put(cursor.key(), cursor.value())
        cursor.next()
        if not cursor.valid():
            break
    writing.commit()


if __name__ == "__main__":
    import numpy as np

    if sys.argv[1] == "copy":
        copy(*sys.argv[2:4])
    else:
        with tempfile.TemporaryDirectory() as out:
            np.savez_compressed(sys.argv[3], **run_all(sys.argv[2], "minidb", out))
