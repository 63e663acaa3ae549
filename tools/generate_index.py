"""Write `src/tazza/operator/index.json` anew from what the modules register: `make index`."""

from __future__ import annotations

from tazza.operator.index import PATH, dump, generate


def main() -> None:
    """Import everything, then write."""
    PATH.write_text(dump(generate()))


if __name__ == "__main__":
    main()
