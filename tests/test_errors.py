"""The error family: one root, builtin types beside it, readable text."""

from __future__ import annotations

import inspect

import pytest

from tazza import errors
from tazza.errors import NotFoundError, TazzaError

CLASSES = [found for _, found in inspect.getmembers(errors, inspect.isclass) if found.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_each_class_is_a_readable_runtime_error(kind: type[TazzaError]) -> None:
    error = kind("blob 'x': 2 is not 3", hint="feed it")
    assert issubclass(kind, TazzaError)
    assert isinstance(error, RuntimeError)
    assert str(error) == "blob 'x': 2 is not 3\n  hint: feed it"
    assert kind.__name__ == "TazzaError" or kind.__name__.endswith("Error")
    assert kind.__doc__


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("SchemaError", ValueError),
        ("ArgumentError", ValueError),
        ("ShapeError", ValueError),
        ("DTypeError", TypeError),
        ("BlobTypeError", TypeError),
        ("UnknownOperatorError", KeyError),
        ("NetError", ValueError),
        ("NumericError", ArithmeticError),
        ("NotFoundError", KeyError),
        ("DuplicateError", ValueError),
        ("OutOfMemoryError", MemoryError),
        ("FormatError", ValueError),
        ("DBError", OSError),
        ("FileError", OSError),
    ],
)
def test_a_builtin_handler_catches_it(name: str, builtin: type[Exception]) -> None:
    with pytest.raises(builtin, match=r"^it is so$"):
        raise getattr(errors, name)("it is so")


def test_a_key_error_is_printed_without_quotes() -> None:
    assert str(NotFoundError("unknown net 'a'")) == "unknown net 'a'"


def test_context_lines_stand_between_message_and_hint() -> None:
    error = TazzaError("it failed", hint="mend it")
    error.add_context("operator Relu 'r'")
    error.add_context("net 'n'")
    assert str(error).splitlines() == ["it failed", "  operator Relu 'r'", "  net 'n'", "  hint: mend it"]
    assert (error.message, error.hint, error.where) == ("it failed", "mend it", ["operator Relu 'r'", "net 'n'"])
