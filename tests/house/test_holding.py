"""Nothing is taken in a form in which an interrupt loses it, and no lock stays locked in a forked child."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parent.parent.parent / "src" / "tazza"
STDLIB = {"Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"}
"""What the standard library writes in Python: a `with` may be interrupted when its lock is taken and not noted."""


def calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node


def test_no_lock_of_python_is_used() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{call.lineno}"
        for path in PACKAGE.rglob("*.py")
        for call in calls(path)
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in STDLIB
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "threading"
    ]
    assert found == [], "take a lock of C, or tazza.runtime.holding"


def test_locks_of_modules_are_renewed_in_a_child() -> None:
    found: list[str] = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Call):
                if isinstance(value.func, ast.Attribute) and value.func.attr in ("Lock", "RLock"):
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == [], "renewed(threading.Lock()), or a Guard: tazza.runtime.fork"
