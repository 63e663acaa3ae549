"""Typed flags of the process, declared where they are used.

    SHARED = flag("caffe2_force_shared_col_buffer", False, "every Conv shares one column buffer")
    if SHARED.value: ...

A flag gets its value from, weakest first: its default, the environment variable `TAZZA_<NAME>` (read when the value
is first asked for), the command line (`parse`), `set`, and `override` for the length of a `with` block.

Constant state: what a flag was declared with. Changing state: `_layers` of each flag, changed only under `_LOCK`; it
never becomes empty again once it is filled, so that reading a value takes no lock.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, TypeVar, cast

from tazza.data_class import dataclass
from tazza.errors import DuplicateError, InitError, NotFoundError
from tazza.registry import Registry
from tazza.runtime.flag_index import index, load_alias, load_flag
from tazza.runtime.fork import freed_in_child

Value = TypeVar("Value", bool, int, float, str)

TRUE_WORDS = ("true", "1", "yes", "on")
FALSE_WORDS = ("false", "0", "no", "off")

_LOCK = freed_in_child(threading.RLock())
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NUMBER = re.compile(r"-\.?\d")


@dataclass(eq=False)  # layers are told apart by identity
class _Layer(Generic[Value]):
    """One value that hides those below it, and where it came from."""

    value: Value
    source: str


class Flag(Generic[Value]):
    """One named setting of the process, of type bool, int, float or str (the type of its default).

    Example:
        >>> width = Flag("width", 3, "how wide", minimum=1)
        >>> with width.override(5):
        ...     width.value
        5
        >>> width.value, width.source
        (3, 'default')
    """

    def __init__(
        self,
        name: str,
        default: Value,
        help: str,
        *,
        alias: str | None = None,
        minimum: Value | None = None,
        choices: tuple[Value, ...] = (),
    ) -> None:
        """Describe a flag; it can be set from the command line only if it is made by `flag`.

        Raises:
            InitError: a name that is no identifier, a type other than the four, or a default out of its own range.
        """
        for word in (name,) if alias is None else (name, alias):
            if _NAME.fullmatch(word) is None:
                raise InitError(f"flag name {word!r} is not of letters, digits and underscores", hint="rename it")
        if type(default) not in _READERS:
            raise InitError(
                f"flag {name}: type {type(default).__name__} of the default is none of bool, int, float, str"
            )
        self.name = name
        self.alias = alias
        self.help = help
        self.kind: type[Value] = type(default)
        self.minimum = minimum
        self.choices = choices
        self.default = self._checked(default)
        self.module = ""
        """The module that declared it, of flags that `flag` made."""
        self._layers: list[_Layer[Value]] = []

    @property
    def variable(self) -> str:
        """Return the name of the environment variable that gives the default."""
        return variable_of(self.name)

    @property
    def value(self) -> Value:
        """Return the value in force.

        Raises:
            InitError: the environment variable, on which the value rests, cannot be read.
        """
        layers = self._layers
        return layers[-1].value if layers else self._top().value

    @property
    def source(self) -> str:
        """Return where the value comes from: default, environment, command line, set or override."""
        return self._top().source

    @property
    def given(self) -> bool:
        """Tell whether somebody chose the value, so that it is not the built-in default."""
        return self.source != "default"

    def set(self, value: Value) -> None:
        """Change the value; inside of `override` only until that ends.

        Raises:
            InitError: a value of the wrong type or out of range.
        """
        self._assign(self._checked(value), "set")

    @contextmanager
    def override(self, value: Value) -> Generator[None]:
        """Put `value` in force, for all threads, until the block ends, be it by an error.

        Blocks of several threads may overlap and end in any order: the one entered last and not yet left wins.

        Raises:
            InitError: a value of the wrong type or out of range.
        """
        layer = _Layer(self._checked(value), "override")
        kernels = self in _KERNEL_FLAGS
        try:
            with _LOCK:
                self._top()
                self._layers.append(layer)
                KERNEL_CHANGES[0] += kernels
            yield
        finally:
            with _LOCK:
                try:
                    if layer in self._layers:  # else an interrupt (Ctrl-C) came first
                        self._layers.remove(layer)
                finally:
                    KERNEL_CHANGES[0] += kernels

    def setter(self, text: str, source: str) -> Callable[[], None]:
        """Read `text` and return what puts it in force; so many texts can be checked before one value changes.

        Raises:
            InitError: a text that is not of the flag's type, or a value out of range.
        """
        return partial(self._assign, self._read(text, f"flag {self.name}"), source)

    def _top(self) -> _Layer[Value]:
        if not self._layers:
            with _LOCK:
                if not self._layers:
                    self._layers.append(self._base())
        return self._layers[-1]

    def _base(self) -> _Layer[Value]:
        text = os.environ.get(self.variable)
        if text is None:
            return _Layer(self.default, "default")
        return _Layer(self._read(text, f"environment variable {self.variable}"), "environment")

    def _assign(self, value: Value, source: str) -> None:
        with _LOCK:
            top, kernels = self._top(), self in _KERNEL_FLAGS
            top.value, top.source = value, source
            KERNEL_CHANGES[0] += kernels

    def _read(self, text: str, what: str) -> Value:
        try:
            value = _READERS[self.kind](text)
        except ValueError:
            raise InitError(f"{what} takes {self.takes()}, got {text!r}", hint=self.help) from None
        return self._checked(cast("Value", value), what)

    def _checked(self, value: Value, what: str | None = None) -> Value:
        named = f"flag {self.name}" if what is None else what
        if self.kind is float and type(value) is int:
            value = cast("Value", float(value))
        right_type = type(value) is self.kind
        # "not >=" rather than "<", so that a NaN is refused as well
        below = right_type and self.minimum is not None and not cast("float", value) >= cast("float", self.minimum)
        if not right_type or below or (self.choices and value not in self.choices):
            raise InitError(f"{named} takes {self.takes()}, got {value!r}", hint=self.help)
        return value

    def takes(self) -> str:
        """Return in words which values are allowed."""
        if self.choices:
            return f"one of {', '.join(str(choice) if choice != '' else repr('') for choice in self.choices)}"
        return self.kind.__name__ if self.minimum is None else f"{self.kind.__name__} >= {self.minimum}"


def _read_bool(text: str) -> bool:
    word = text.lower()
    if word not in TRUE_WORDS + FALSE_WORDS:
        raise ValueError(text)
    return word in TRUE_WORDS


_READERS: dict[type, Callable[[str], bool | int | float | str]] = {bool: _read_bool, int: int, float: float, str: str}


def variable_of(name: str) -> str:
    """Return the name of the environment variable that gives a flag's default.

    >>> variable_of("num_threads")
    'TAZZA_NUM_THREADS'
    """
    return f"TAZZA_{name.upper()}"


FLAGS: Registry[str, Flag[Any]] = Registry("flag", loader=load_flag, listed=lambda: frozenset(index()["flags"]))
ALIASES: Registry[str, Flag[Any]] = Registry(
    "flag alias", loader=load_alias, listed=lambda: frozenset(index()["aliases"])
)
_KERNEL_FLAGS: list[Flag[Any]] = []
KERNEL_CHANGES = [0]
"""What `kernel_changes` tells, for those who ask before every run."""


def flag(
    name: str,
    default: Value,
    help: str,
    *,
    alias: str | None = None,
    minimum: Value | None = None,
    choices: tuple[Value, ...] = (),
    kernels: bool = False,
) -> Flag[Value]:
    """Declare a flag that `parse` and the environment can set.

    Args:
        name: what stands behind `--`; letters, digits and underscores.
        default: the value if nobody chooses another; its type is the flag's type.
        help: one line: what the flag does.
        alias: a second, mostly one-letter, name for the command line.
        minimum: the smallest value allowed.
        choices: the only values allowed.
        kernels: what is prepared under one value is not used under another.

    Raises:
        DuplicateError: the name or the alias is taken.
        InitError: a name that is no identifier, a type other than bool, int, float, str, or a default out of range.
    """
    made = Flag(name, default, help, alias=alias, minimum=minimum, choices=choices)
    made.module = sys._getframe(1).f_globals["__name__"]  # pyright: ignore[reportPrivateUsage] -- the index needs it
    with _LOCK:
        if name in ALIASES.keys() or (
            alias is not None and alias in FLAGS.keys()
        ):  # `in` would import what declares it
            raise DuplicateError(f"flag {name!r} (alias {alias!r}): the name of one is the alias of another")
        if alias is not None:
            ALIASES.register(alias, made, help=help)
        try:
            FLAGS.register(name, made, help=help)
        except DuplicateError:
            if alias is not None:
                ALIASES.unregister(alias)
            raise
        if kernels:
            _KERNEL_FLAGS.append(made)
    return made


def kernel_flags() -> tuple[tuple[str, Any], ...]:
    """Return name and value of the flags that change what kernels are and have not their default, by name.

    Part of the key of what was prepared; a flag that is declared later, by a module that is loaded then, changes it
    only where somebody set it.
    """
    return tuple(sorted((one.name, one.value) for one in _KERNEL_FLAGS if one.value != one.default))


def kernel_changes() -> int:
    """Return how often one of these flags was given a value: what was bound before is prepared anew after a change."""
    return KERNEL_CHANGES[0]


def parse(arguments: Sequence[str]) -> list[str]:
    """Set flags from words of a command line (without the program's name) and return the words that are no flags.

    Understood are `--name=value`, `--name value`, `--name` and `--noname` for bool flags, one dash instead of two,
    dashes instead of underscores in names, and `--`, behind which nothing is a flag. All flags are set or, on an
    error, none. Variables of the environment are checked too.

    Raises:
        InitError: an unknown flag, a missing value, or a value of the wrong type or out of range.
    """
    for name in {*FLAGS.registered(), *(name for name in index()["flags"] if variable_of(name) in os.environ)}:
        _ = FLAGS[name].value
    words = deque(arguments)
    rest: list[str] = []
    setters: list[Callable[[], None]] = []
    while words:
        word = words.popleft()
        if word == "--":
            rest.extend(words)
            break
        if _is_flag(word):
            setters.append(_read_flag(word, words))
        else:
            rest.append(word)
    with _LOCK:
        for assign in setters:
            assign()
    return rest


def all_flags() -> list[Flag[Any]]:
    """Return every flag that tazza or a loaded module declares, by name; imports what declares them."""
    return [FLAGS[name] for name in FLAGS]


def _is_flag(word: str) -> bool:
    return len(word) > 1 and word.startswith("-") and _NUMBER.match(word) is None


def _read_flag(word: str, following: deque[str]) -> Callable[[], None]:
    stem, equals, text = word.removeprefix("-").removeprefix("-").partition("=")
    name = stem.replace("-", "_")
    found = _declared(name)
    if found is None and not equals and name.startswith("no"):
        negated = _declared(name.removeprefix("no").removeprefix("_"))
        if negated is not None and negated.kind is bool:
            return negated.setter("false", "command line")
    if found is None:
        found = _find(name, word)
    if not equals and found.kind is bool:
        text = "true"
    elif not equals:
        if not following:
            raise InitError(f"flag {word} takes {found.takes()}, but nothing follows it", hint=found.help)
        text = following.popleft()
    return found.setter(text, "command line")


def _declared(name: str) -> Flag[Any] | None:
    alias = ALIASES.get(name)
    return FLAGS.get(name) if alias is None else alias


def _find(name: str, word: str) -> Flag[Any]:
    try:
        return FLAGS[name]
    except NotFoundError as missing:
        raise InitError(f"unknown flag {word!r}", hint=missing.hint) from None
