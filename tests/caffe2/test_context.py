"""Which object is the current one: recorded from Caffe2 for classes that derive from one another."""

from __future__ import annotations

from caffe2.python import context


class Outer(context.DefaultManaged):
    """A class with a default."""


class Inner(Outer):
    """One below it."""


class Beside(Outer):
    """Another."""


def test_classes_have_defaults_of_their_own() -> None:
    assert type(Inner.current()) is Inner
    assert Outer.current() is not Inner.current()
    assert Inner.current() is not Beside.current()


def test_an_object_counts_for_its_class_and_those_above() -> None:
    with Inner() as entered:
        assert Inner.current() is entered
        assert Outer.current() is entered
        assert Beside.current() is not entered
    with Outer() as entered:
        assert Outer.current() is entered
        assert Inner.current() is not entered
