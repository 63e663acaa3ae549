"""Loaded the libraries of an accelerator; there are none, and nothing is loaded."""

from __future__ import annotations

import ctypes
import os

__all__ = ["ctypes", "os"]
