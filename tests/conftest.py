"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

# One BLAS thread: tests run side by side, and threads that wait for each other on busy processors take seconds.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Compiled kernels of tests stay out of the user's cache, and are kept from one run of the tests to the next.
os.environ.setdefault("TAZZA_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "tazza"))

# An example that takes long on a busy machine is no failure: tests assert nothing about time.
settings.register_profile("tazza", deadline=None)
settings.load_profile("tazza")
