"""The checked-in message modules are what the compiler makes of the `.proto` files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
GENERATED = {path.name: path for path in (ROOT / "src" / "tazza").rglob("*_pb2.py*") if path.suffix in {".py", ".pyi"}}


@pytest.mark.slow
@pytest.mark.delivery
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the pinned compiler has wheels for Python 3.11 only")
def test_regenerating_changes_nothing(tmp_path: Path) -> None:
    program = ROOT / "tools" / "generate_proto.py"
    done = subprocess.run([sys.executable, program, "--out", tmp_path], capture_output=True, text=True, check=False)
    if "No matching distribution found" in done.stderr:
        pytest.skip("the compiler cannot be downloaded here")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == GENERATED.keys()
    for name, path in GENERATED.items():
        assert (tmp_path / name).read_bytes() == path.read_bytes(), name
