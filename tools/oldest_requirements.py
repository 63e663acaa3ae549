"""Print the oldest versions that pyproject.toml allows, one `name==version` a line, to constrain an installation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def oldest(requirement: str) -> str:
    """Turn a requirement with a lower bound into one that allows only that bound.

    Raises:
        ValueError: the requirement has no lower bound.

    >>> oldest("protobuf>=4.21.1,<8")
    'protobuf==4.21.1'
    """
    found = re.fullmatch(r"([\w.-]+)>=([\d.]+)(,.*)?", requirement)
    if found is None:
        raise ValueError(f"requirement {requirement!r} in pyproject.toml has no lower bound of the form name>=version")
    return f"{found[1]}=={found[2]}"


def main() -> None:
    """Print the oldest version of each dependency."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))
    for requirement in project["project"]["dependencies"]:
        print(oldest(requirement))


if __name__ == "__main__":
    main()
