"""Damaged LMDBs by the hundred, each opened and read by a child process; a command and the law of `test_lmdb_pages`.

    python -m tests.db.damaged_lmdbs 5000 1    # how many, and the seed

What is damaged is what a file tells of itself (heads of pages, lists and heads of nodes, metas, its length); bytes of
keys and values are nobody's to check. Half of the files get a sparse tail that makes them longer than what is checked
as a whole. A child reads each of them, both with and without that check, and then writes to it. What it reads must be
what one of the last two commits wrote, or the error typed; what it writes to must look sound to the checker of the
library's package as well. A child that dies counts for the file it was at.
"""

from __future__ import annotations

import importlib
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import cast

from tazza.db import Mode, environment, open_db
from tazza.errors import DBError

PAGE = 4096
META_BYTES = 152
TAILS = (300 * 2**20, 2**40)
AT_A_TIME = 250
LEAK = "neither reachable nor in the freeDB"

Damage = Callable[[random.Random, bytearray, bytes], None]


def make(folder: Path, *, commits: int) -> None:
    """Make a database of three levels with large values and free pages, by so many commits."""
    for commit in range(commits):
        source = random.Random(commit)
        with open_db("lmdb", folder, Mode.WRITE) as db, db.transaction() as transaction:
            for number in range(commit, 700, 3):
                key = f"{number:04}" + "k" * 60 * (number % 7)
                transaction.put(key, source.randbytes(9000 if number % 50 == 3 else source.randrange(200)))
    (folder / "lock.mdb").unlink()


def read(folder: Path) -> list[tuple[bytes, bytes]]:
    """Return all records."""
    with open_db("lmdb", folder) as db, db.cursor() as cursor:
        found = list(cursor)
        for key in (b"", b"0300", b"zz"):
            cursor.seek(key)
        return found


def _pages(whole: bytes) -> list[tuple[int, int]]:
    """Return number and flags of the pages that tell something; those in the middle of a large value do not."""
    heads = [(number, *struct.unpack_from("=QHH", whole, number * PAGE)) for number in range(len(whole) // PAGE)]
    inside: set[int] = set()
    for number, stored, _, flags in heads:
        if stored == number and flags == 4 and number not in inside:
            inside.update(range(number + 1, number + struct.unpack_from("=I", whole, number * PAGE + 12)[0]))
    return [(number, flags) for number, stored, _, flags in heads if stored == number and number not in inside]


def _head(source: random.Random, data: bytearray, whole: bytes) -> None:
    number, _ = source.choice(_pages(whole))
    data[number * PAGE + source.randrange(16)] = source.randrange(256)


def _meta(source: random.Random, data: bytearray, whole: bytes) -> None:
    del whole
    data[source.randrange(2) * PAGE + source.randrange(META_BYTES)] = source.randrange(256)


def _node(source: random.Random, data: bytearray, whole: bytes) -> None:
    page = source.choice([number for number, flags in _pages(whole) if flags in (1, 2)]) * PAGE
    (lower,) = struct.unpack_from("=H", whole, page + 12)
    at = page + 16 + 2 * source.randrange((lower - 16) // 2)
    nbytes = 2
    if source.random() < 0.6:
        at, nbytes = page + struct.unpack_from("=H", whole, at)[0], 8
    at += source.randrange(nbytes)
    # Nodes have even lengths: a length that is off by one may only move the padding, which nothing tells from a value.
    data[at] = (whole[at] + source.randrange(2, 255)) % 256


def _cut(source: random.Random, data: bytearray, whole: bytes) -> None:
    del data[source.randrange(len(whole)) :]


DAMAGES: tuple[Damage, ...] = (_head, _head, _meta, _node, _node, _node, _cut)


def damaged(source: random.Random, whole: bytes, folder: Path) -> None:
    """Write a damaged copy."""
    data = bytearray(whole)
    damage = source.choice(DAMAGES)
    for _ in range(source.choice((1, 1, 2, 5)) if damage is not _cut else 1):
        damage(source, data, whole)
    folder.mkdir()
    (folder / "data.mdb").write_bytes(data)
    if source.random() < 0.5:
        os.truncate(folder / "data.mdb", source.choice(TAILS))


def look(folder: Path, right: list[list[tuple[bytes, bytes]]], nbytes: int) -> str:
    """Read a database and write to it; return what came of it."""
    found: list[str] = []
    for most in (0, environment.VERIFY_BYTES_MAX.value):
        with environment.VERIFY_BYTES_MAX.override(most):
            try:
                found.append("right" if read(folder) in right else f"WRONG({folder.name})")
            except DBError:
                found.append("refused")
    problems = _second_opinion(folder, nbytes)
    try:
        with open_db("lmdb", folder, Mode.WRITE) as db:
            found += problems
            with db.transaction() as transaction:
                for number in range(200):
                    transaction.put(f"{number * 3 + 1:04}x", bytes(400))
            with db.cursor() as cursor:
                found.append("written" if len(list(cursor)) > 200 else "LOST")
    except DBError:
        found.append("refused")
    return " ".join(found)


def _second_opinion(folder: Path, nbytes: int) -> list[str]:
    """Return what the library's package finds in the first bytes, but for pages that nothing refers to: no harm."""
    data = folder / "data.mdb"
    os.truncate(data, min(nbytes, data.stat().st_size))  # it goes through all of a sparse tail
    verifier = importlib.import_module("lmdb.verify")
    try:
        found = cast("list[str]", verifier.verify(str(data)))
    except verifier.VerifyError as error:
        found = [str(error)]
    return [f"TRUSTED({problem})" for problem in found if LEAK not in problem][:1]


def child(folder: Path) -> None:
    """Look at each database in a folder, and say so before and after."""
    wholes = [folder / "good", folder / "before"]
    right, nbytes = [read(whole) for whole in wholes], (wholes[0] / "data.mdb").stat().st_size
    for name in sys.stdin.read().split():
        print("at", name, flush=True)
        print("found", look(folder / name, right, nbytes), flush=True)


def run(count: int, seed: int) -> Counter[str]:
    """Look at `count` damaged databases; return how often what came of it, and the signals by file."""
    results: Counter[str] = Counter()
    folder = Path(tempfile.mkdtemp())
    try:
        make(folder / "good", commits=4)
        make(folder / "before", commits=3)
        whole, source = (folder / "good" / "data.mdb").read_bytes(), random.Random(seed)
        for start in range(0, count, AT_A_TIME):
            names = [f"{number}" for number in range(start, min(count, start + AT_A_TIME))]
            for name in names:
                damaged(source, whole, folder / name)
            while names:
                names = names[_some(folder, names, results) :]
    finally:
        shutil.rmtree(folder)
    return results


def _some(folder: Path, names: list[str], results: Counter[str]) -> int:
    """Let a child look at databases until it dies or is done; return how many it began with."""
    program = "import sys; from pathlib import Path; from tests.db.damaged_lmdbs import child; child(Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        input=" ".join(names),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    lines = done.stdout.splitlines()
    results.update(line.removeprefix("found ") for line in lines if line.startswith("found "))
    if done.returncode != 0:
        results[f"DIED of {done.returncode}: {done.stderr[-300:]}"] += 1
    return max(1, sum(line.startswith("at ") for line in lines))


if __name__ == "__main__":
    for said, times in sorted(run(int(sys.argv[1]), int(sys.argv[2])).items()):
        print(f"{times:6} {said}")
