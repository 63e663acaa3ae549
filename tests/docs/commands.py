"""The commands that documents show, and a fresh copy of the project to run them in."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COLUMNS = 80
LIMIT_S = 400

_PROGRAM = r"(?:make|tazza|\.venv/bin/\w+|python3?|pip)"
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(rf"^ {{4}}({_PROGRAM} .*?)(?: +#.*)?$|`({_PROGRAM} [^`]+)`", re.MULTILINE)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_WRAPPERS = {
    "python": "",
    "tazza": '-c "from tazza.cli import main; main()"',
    "pytest": "-m pytest",
    "ruff": "-m ruff",
}
_NOT_COPIED = shutil.ignore_patterns(".git", ".venv*", "out", "build", "dist", ".*_cache", "__pycache__", ".hypothesis")


def commands(page: Path) -> list[str]:
    """Return the commands of a page in order: lines of indented blocks, and code spans, that begin with a program."""
    text = _FENCED.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
    return [found[1] if found[1] else found[2] for found in _COMMAND.finditer(text)]


@dataclass(frozen=True)
class Printed:
    """What a command printed, as a terminal shows it, and how it ended."""

    status: int
    text: str

    @property
    def widest(self) -> str:
        """The widest line."""
        lines = [part for line in self.text.splitlines() for part in line.split("\r")]
        return max((line.rstrip() for line in lines), key=len, default="")


@dataclass(frozen=True)
class Copy:
    """A copy of the project whose `.venv` runs the copy's code with the libraries that are here."""

    folder: Path

    @staticmethod
    def make(folder: Path) -> Copy:
        """Copy what belongs to the project; the environment is a few programs that lead to this one."""
        shutil.copytree(ROOT, folder, ignore=_NOT_COPIED)
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name, words in _WRAPPERS.items():
            script = programs / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            script.chmod(0o755)
        (folder / ".venv" / ".installed").touch()
        return Copy(folder)

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a command: the copy's code comes first."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COLUMNS"))}
        path = f"{self.folder / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return kept | {"PYTHONPATH": str(self.folder / "src"), "PATH": path, "TERM": "xterm", "MPLBACKEND": "agg"}

    def show(self, command: str, columns: int = COLUMNS) -> Printed:
        """Run a command in a terminal of so many columns."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        process = subprocess.Popen(
            ["timeout", str(LIMIT_S), "bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        text = bytearray()
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the last program at the other end has gone
                break
            if not part:
                break
            text += part
        os.close(ours)
        shown = _ESCAPE.sub("", text.decode("utf-8", "replace").replace("\r\n", "\n"))
        return Printed(process.wait(), shown)

    def cut(self, command: str) -> str:
        """Run a command into a reader that stops after a line; return what it says about that."""
        words = ["timeout", str(LIMIT_S), "bash", "-c", f"{command} | head -1 > /dev/null"]
        ended = subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        return ended.stderr
