"""What holds for every update of parameters."""

from __future__ import annotations

from tazza.operator import forbidden

NO_GRADIENT = forbidden("an update of parameters is no function of the net")
