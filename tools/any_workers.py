"""A plugin of pytest: nets of type `parallel` that do not say how many workers they have take as many as others do."""

from __future__ import annotations

import dataclasses

from tazza.nets import NETS

PARALLEL = NETS.get("parallel")
assert PARALLEL is not None
PARALLEL.policy = dataclasses.replace(PARALLEL.policy, needs_workers=False)  # pyright: ignore[reportAttributeAccessIssue]
