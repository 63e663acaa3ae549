"""Freed memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import numpy as np
from tazza.runtime.heap import give_back

def resident():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmRSS"))

for mib in (8, 16, 24):  # each free raises what the next one leaves
    np.ones(mib << 17); np.ones(mib << 17)
before = resident()
print(give_back(), before - resident())
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc and glibc are Linux's")
def test_what_was_freed_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    found, mib = done.stdout.split()
    assert found in ("True", "False")
    assert int(mib) >= (8 if found == "True" else 0)
