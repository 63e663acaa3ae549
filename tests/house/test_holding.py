"""Nothing is taken in a form in which an interrupt loses it, and no lock stays locked in a forked child."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.trees import nodes, tree

PACKAGE = Path(__file__).parent.parent.parent / "src" / "tazza"
STDLIB = {"Condition", "Event", "Semaphore", "BoundedSemaphore", "Barrier"}
"""What the standard library writes in Python: a `with` may be interrupted when its lock is taken and not noted."""

WITHOUT_LOCKS = {"db/minidb.py"}
"""Their destructors close a file and take no lock."""
FORMS = ("runtime/holding.py", "runtime/fork.py")
GIVEN = {
    ("workspace.py", "ThreadPoolExecutor"),  # handed to the user, who waits
    ("nets/run.py", "Future"),  # with a condition of ours
    ("runtime/workers.py", "SimpleQueue"),  # C's
    ("runtime/workers.py", "Empty"),
}


def calls(path: Path) -> Iterator[ast.Call]:
    for node in nodes(path):
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


def test_only_gates_are_acquired_by_a_call() -> None:
    """What is held for a while is taken by `with`; a gate is another thread's to open, made by whoever waits there."""
    found: list[str] = []
    for path in PACKAGE.rglob("*.py"):
        name = str(path.relative_to(PACKAGE))
        for function in nodes(path):
            if isinstance(function, ast.FunctionDef) and function.name != "__init__" and name not in FORMS:
                taken = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _takes_own(node)]
                found += [f"{name}:{node.lineno}" for node in taken]
    assert found == [], "with self._lock: ..., or a form of tazza.runtime.holding"


def _takes_own(node: ast.Call) -> bool:
    """Whether a node is `self.something.acquire(...)`, or a global one."""
    if not (isinstance(node.func, ast.Attribute) and node.func.attr == "acquire"):
        return False
    taken = node.func.value
    while isinstance(taken, ast.Attribute):
        taken = taken.value
    return isinstance(taken, ast.Name) and (taken.id == "self" or taken.id.startswith("_") or taken.id.isupper())


def test_no_executor_of_python_waits() -> None:
    """Executors, queues and futures of the standard library have conditions and semaphores inside."""
    found: list[str] = []
    for path in PACKAGE.rglob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and node.module in ("concurrent.futures", "queue"):
                name = str(path.relative_to(PACKAGE))
                found += [f"{name} {one.name}" for one in node.names if (name, one.name) not in GIVEN]
    assert found == [], "tazza.runtime.workers has threads that an interrupt cannot lose"


def test_locks_of_modules_are_renewed_in_a_child() -> None:
    found: list[str] = []
    for path in PACKAGE.rglob("*.py"):
        for node in tree(path).body:
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Call):
                if isinstance(value.func, ast.Attribute) and value.func.attr in ("Lock", "RLock"):
                    found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert found == [], "freed_in_child(threading.Lock()), or a Guard: tazza.runtime.fork"


def test_nobody_puts_a_default_into_weak_references() -> None:
    """`setdefault` of a dictionary of weak references takes two steps: two threads may each get their own."""
    found: list[str] = []
    for path in PACKAGE.rglob("*.py"):
        weak = {
            node.target.id
            for node in tree(path).body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "Weak" in ast.dump(node)
        }
        for call in calls(path):
            if isinstance(call.func, ast.Attribute) and call.func.attr == "setdefault":
                if isinstance(call.func.value, ast.Name) and call.func.value.id in weak:
                    found.append(f"{path.relative_to(PACKAGE)}:{call.lineno}")
    assert found == [], "look and put while a lock is held"


def test_what_is_collected_last_takes_no_lock() -> None:
    """A thread that the interpreter stopped at its end may hold any lock for ever: destructors ask for that first."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef) and node.name == "__del__" and "is_finalizing" not in ast.unparse(node)
    }
    assert found <= WITHOUT_LOCKS, "ask sys.is_finalizing() in __del__"
