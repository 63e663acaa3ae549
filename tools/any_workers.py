"""A plugin of pytest: nets of type `parallel` that do not say how many workers they have take as many as others do."""

from __future__ import annotations

import dataclasses
from typing import Any

from tazza.nets import NETS

parallel: Any = NETS.get("parallel")
parallel.policy = dataclasses.replace(parallel.policy, needs_workers=False)
