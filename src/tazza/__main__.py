"""`python -m tazza` is the command `tazza`."""

from __future__ import annotations

from tazza.cli import main

if __name__ == "__main__":
    main()
