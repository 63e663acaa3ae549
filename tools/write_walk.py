"""Run the sessions in docs/walk, and write what they print into them: `python -m tools.write_walk`.

The blocks marked `pycon` of all chapters, in the order of the chapters, are one session. What stands behind `>>>` is
run, and the lines below become what it printed. `tests/docs/test_walk.py` runs the same blocks and compares.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import traceback
from pathlib import Path
from typing import Any

WALK = Path(__file__).parent.parent / "docs" / "walk"
BLOCK = re.compile(r"(?<=```pycon\n).*?(?=```)", re.DOTALL)
"""What stands between the fences of a block."""


def chapters() -> list[Path]:
    """Return the chapters in order."""
    return sorted(WALK.glob("[0-9]-*.md"))


def rewrite(text: str, names: dict[str, Any]) -> str:
    """Return the text of a chapter with what its blocks print; they run in `names`."""
    return BLOCK.sub(lambda found: _rerun(found[0], names), text)


def _rerun(block: str, names: dict[str, Any]) -> str:
    lines: list[str] = []
    for example in doctest.DocTestParser().get_examples(block):
        first, *others = example.source.splitlines()
        lines += [f">>> {first}", *(f"... {line}" if line else "..." for line in others)]
        printed = _printed(example, names)
        # What stands there stays where it fits: `...` is for what differs from machine to machine.
        fits = example.want and doctest.OutputChecker().check_output(example.want, printed, doctest.ELLIPSIS)
        lines += (example.want if fits else printed).splitlines()
    return "\n".join([*lines, ""])


def _printed(example: doctest.Example, names: dict[str, Any]) -> str:
    """Return what the interpreter would print, in the form that doctest compares with.

    An error is written only where one stands already: it is what the walk wants to show there.
    """
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            exec(compile(example.source, "<walk>", "single", dont_inherit=True), names)
        except Exception as error:
            if example.exc_msg is None:
                error.add_note(f"in the walk, at: {example.source}")
                raise
            return "Traceback (most recent call last):\n    ...\n" + "".join(traceback.format_exception_only(error))
    return re.sub(r"(?m)^$(?!\Z)", "<BLANKLINE>", output.getvalue())


def main() -> None:
    """Rewrite all chapters."""
    names: dict[str, Any] = {"__name__": "__walk__"}
    for path in chapters():
        path.write_text(rewrite(path.read_text(encoding="utf-8"), names), encoding="utf-8")


if __name__ == "__main__":
    main()
