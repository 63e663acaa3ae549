"""A generic registry: keys to values, with help messages, priorities, duplicate detection and a fallback.

Operators, kernels, schemas, gradients, nets, DBs, serializers and flags are each held by one instance; nothing in
tazza keeps a hand-written list of such things. A key that is missing is first sought by the `loader` (which may
import the module that registers it), then in the fallback registry.

State: `_entries` and `generation` change only under `_lock`; reading needs no lock, since entries are never mutated.
`_missing` and `_unfinished` need none: at worst a loader is asked, or a module looked at, once more. `_CHANGES` counts
under one lock for all registries.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Generic, TypeVar

from tazza.data_class import dataclass
from tazza.errors import DuplicateError, NotFoundError
from tazza.runtime.fork import freed_in_child
from tazza.runtime.near_names import near_names

NAMES_SHOWN = 20
"""How many names an error lists."""
MISSING_MOST = 4096
"""Keys that are remembered as missing: files of strangers may name any number."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class Entry(Generic[V]):
    """One registration: the value, what it is for, and how strongly it claims its key."""

    value: V
    help: str = ""
    priority: int = 0
    origin: str = ""
    """The Python module whose import registered it; empty where no import did, or a loader made it."""


_CHANGES = [0]
"""How often any registry changed: until then a loader that brought nothing would bring nothing again."""
_COUNTING = freed_in_child(threading.Lock())


def note_change() -> None:
    """Let all loaders be asked again: what they look at besides registries has changed."""
    with _COUNTING:
        _CHANGES[0] += 1


def registry_changes() -> int:
    """Return a number that grows with every change of a registry, for the key of what was found out by asking them."""
    return _CHANGES[0]


def _importing() -> str:
    """Return the name of the module that is being imported by now, the innermost one; within a loader nothing is."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage] -- a traceback would be slower
    while frame is not None and not (frame.f_code.co_name == "entry" and frame.f_globals is globals()):
        if frame.f_code.co_name == "<module>":
            return str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    return ""


def _begun(module: str) -> bool:
    """Return whether the import of a module has begun and not ended."""
    return bool(getattr(getattr(sys.modules.get(module), "__spec__", None), "_initializing", False))


class Registry(Generic[K, V]):
    """A named mapping that is filled by decorators.

    A key may be registered again with a higher priority, which replaces it; a lower priority is ignored; the same
    priority raises `DuplicateError`. `loader(key)` is called for a missing key and may register it as a side effect;
    where it does not, it is not asked again before something is registered, in this registry or another.

    >>> colours: Registry[str, int] = Registry("colour")
    >>> colours.register("red", 1, help="like a cherry")
    >>> colours["red"], "blue" in colours, colours.help("red")
    (1, False, 'like a cherry')
    """

    def __init__(
        self,
        noun: str,
        *,
        loader: Callable[[K], None] | None = None,
        listed: Callable[[], frozenset[K]] | None = None,
        fallback: Registry[K, V] | None = None,
    ) -> None:
        """Create a registry of things called `noun`; `listed()` gives keys that the loader could bring."""
        self.noun = noun
        self.fallback = fallback
        self._loader = loader
        self._listed = listed
        self._entries: dict[K, Entry[V]] = {}
        self._missing: dict[K, int] = {}
        self._unfinished: dict[K, str] = {}
        self._lock = freed_in_child(threading.RLock())
        self.generation = 0
        """Grows whenever a key gets another value or loses it: what was made of values is as old as that."""

    def register(self, key: K, value: V, *, help: str = "", priority: int = 0) -> None:
        """Bind `key` to `value`.

        Raises:
            DuplicateError: the key is bound with the same priority.
        """
        with self._lock:
            old = self._entries.get(key)
            if old is not None and old.priority == priority:
                raise DuplicateError(
                    f"{self.noun} {key!r} is registered already, with the same priority {priority}",
                    hint="register with a higher priority to replace it, or under another key",
                )
            if old is None or old.priority < priority:
                origin = _importing()
                if origin:
                    self._unfinished[key] = origin
                self._entries[key] = Entry(value, help, priority, origin)
                self.generation += 1
                note_change()

    def setdefault(self, key: K, value: V, *, help: str = "") -> None:
        """Bind `key` to `value` unless it is bound: for loaders, which several threads may ask at once."""
        with self._lock:
            if key not in self._entries:
                self.register(key, value, help=help)

    def registering(self, key: K, *, help: str = "", priority: int = 0) -> Callable[[V], V]:
        """Return a decorator that binds `key` to what it decorates."""

        def decorate(value: V) -> V:
            self.register(key, value, help=help, priority=priority)
            return value

        return decorate

    def unregister(self, key: K) -> None:
        """Forget `key`; meant for tests and for modules that are unloaded. Unknown keys are ignored."""
        with self._lock:
            if self._entries.pop(key, None) is not None:
                self.generation += 1
                note_change()

    def entry(self, key: K) -> Entry[V] | None:
        """Return the entry of `key`, asking the loader and then the fallback; None when nobody knows it."""
        found = self._entries.get(key)
        if found is None and self._loader is not None and self._missing.get(key) != _CHANGES[0]:
            changes = _CHANGES[0]
            self._loader(key)
            found = self._entries.get(key)
            if found is None:
                if len(self._missing) >= MISSING_MOST:
                    self._missing.clear()
                self._missing[key] = changes
        if found is None and self.fallback is not None:
            found = self.fallback.entry(key)
        elif key in self._unfinished:
            self._finish(key)
        return found

    def _finish(self, key: K) -> None:
        """Wait until another thread that imports the module of an entry has done so; it may need what stands below."""
        module = self._unfinished.get(key, "")
        if _begun(module):
            # Two threads that wait for each other get an error, and go on with what is there. Who imports says what
            # fails.
            with suppress(Exception):
                importlib.import_module(module)
        if not _begun(module):  # else this very thread is at it
            self._unfinished.pop(key, None)

    def brought(self) -> list[tuple[K, Entry[V]]]:
        """Return the keys that are registered here by now with their entries, in the order of registration."""
        return list(self._entries.items())

    def get(self, key: K) -> V | None:
        """Return the value of `key`, or None."""
        found = self.entry(key)
        return None if found is None else found.value

    def __getitem__(self, key: K) -> V:
        """Return the value of `key`.

        Raises:
            NotFoundError: nobody knows it; the message proposes near names.
        """
        found = self.entry(key)
        if found is None:
            raise NotFoundError(f"unknown {self.noun} {key!r}", hint=self.near(key))
        return found.value

    def __contains__(self, key: K) -> bool:
        return self.entry(key) is not None

    def help(self, key: K) -> str:
        """Return the help message of `key`; empty when it has none or is unknown."""
        found = self.entry(key)
        return "" if found is None else found.help

    def keys(self) -> list[K]:
        """Return all keys in printing order: registered, loadable and of the fallback."""
        known = frozenset[K]() if self._listed is None else self._listed()  # which may register some
        names = known | set(self._entries)
        if self.fallback is not None:
            names |= frozenset(self.fallback.keys())
        return sorted(names, key=str)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __repr__(self) -> str:
        """Tell what is registered by now, for which nothing is imported.

        >>> Registry("colour")
        Registry('colour': nothing by now)
        """
        names = sorted(map(str, self._entries))
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        return f"Registry({self.noun!r}: {', '.join(names[:NAMES_SHOWN]) + more if names else 'nothing by now'})"

    def registered(self) -> list[K]:
        """Return the keys that are registered here by now, in the order of registration."""
        return list(self._entries)

    def near(self, key: K, *, but: Callable[[str], bool] | None = None) -> str:
        """Return a hint: names like `key`, or some that are known; none of those that `but` holds back.

        Capitals count for nothing where no name is like it with them.
        """
        names = [str(name) for name in self.keys()]
        near = [name for name in near_names(str(key), names) if but is None or not but(name)]
        if near:
            return f"did you mean {' or '.join(near)}?"
        if len(names) > NAMES_SHOWN:
            return f"{len(names)} are known, none has a name like it"
        return f"known: {', '.join(names)}" if names else "none is registered"


class Hook(Generic[V]):
    """One thing that a lower floor needs and an upper one brings: a registry of a single entry.

    >>> hook: Hook[int] = Hook("number", "math")
    >>> hook.fill(7)
    >>> hook.get()
    7
    """

    def __init__(self, noun: str, module: str) -> None:
        """Be empty; `module` is imported for who asks first, and fills it."""
        self._noun = noun
        self._module = module
        self._value: V | None = None

    def fill(self, value: V) -> None:
        """Hold `value`.

        Raises:
            DuplicateError: it holds another one already.
        """
        if self._value is not None and self._value is not value:
            raise DuplicateError(f"there is a {self._noun} already: {self._value!r}")
        self._value = value

    def get(self) -> V:
        """Return what it holds.

        Raises:
            NotFoundError: its module did not fill it.
        """
        if self._value is None:
            importlib.import_module(self._module)
        if self._value is None:
            raise NotFoundError(f"{self._module} brings no {self._noun}")
        return self._value
