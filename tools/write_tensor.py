"""Run the session in docs/tensor/README.md, and write what it prints into it: `python -m tools.write_tensor`.

`tests/docs/test_tensor.py` runs the same blocks and compares.
"""

from __future__ import annotations

from typing import Any

from tools.draw_tensor import FOLDER
from tools.write_walk import rewrite

PAGE = FOLDER / "README.md"


def main() -> None:
    """Rewrite the page."""
    names: dict[str, Any] = {"__name__": "__tutorial__"}
    PAGE.write_text(rewrite(PAGE.read_text(encoding="utf-8"), names), encoding="utf-8")


if __name__ == "__main__":
    main()
