"""What all tests share."""

from __future__ import annotations

import os

# One BLAS thread: tests run side by side, and threads that wait for each other on busy processors take seconds.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
