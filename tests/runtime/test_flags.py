"""Typed flags: declaring, reading text, overriding, the environment, the command line."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import DuplicateError, InitError
from tazza.runtime import flags
from tazza.runtime.flags import Flag, flag, parse


@pytest.fixture(autouse=True)
def own_flags() -> Iterator[None]:
    """Forget the flags that a test declares."""
    before = (set(flags.FLAGS.keys()), set(flags.ALIASES.keys()), set(flags.FLAG_SOURCES.keys()))
    yield
    for registry, kept in zip((flags.FLAGS, flags.ALIASES, flags.FLAG_SOURCES), before, strict=True):
        for name in registry.keys():
            if name not in kept:
                registry.unregister(name)


def test_a_flag_has_the_type_of_its_default() -> None:
    made = (Flag("b", True, "help"), Flag("i", 3, "help"), Flag("f", 0.5, "help"), Flag("s", "a", "help"))
    assert [one.kind for one in made] == [bool, int, float, str]
    assert [one.value for one in made] == [True, 3, 0.5, "a"]
    assert {(one.source, one.given) for one in made} == {("default", False)}


def test_set_checks_the_type() -> None:
    count = Flag("count", 3, "how many", minimum=1)
    count.set(5)
    assert (count.value, count.source, count.given) == (5, "set", True)
    for wrong in (0, True, "7", 2.0):
        with pytest.raises(InitError, match=r"flag count takes int >= 1, got .*\n  hint: how many"):
            count.set(wrong)  # pyright: ignore[reportArgumentType] - that is what is refused
    assert count.value == 5


def test_a_float_flag_takes_an_int_and_no_nan_below_a_minimum() -> None:
    rate = Flag("rate", 0.5, "how fast", minimum=0.0)
    rate.set(2)
    assert type(rate.value) is float
    with pytest.raises(InitError, match=r"float >= 0.0, got nan"):
        rate.set(float("nan"))


def test_choices() -> None:
    policy = Flag("policy", "step", "which", choices=("step", "fixed"))
    policy.set("fixed")
    with pytest.raises(InitError, match="flag policy takes one of step, fixed, got 'exp'"):
        policy.set("exp")


@pytest.mark.parametrize(("name", "alias"), [("", None), ("a-b", None), ("1a", None), ("a", "b c")])
def test_a_bad_name_is_refused(name: str, alias: str | None) -> None:
    with pytest.raises(InitError, match="is not of letters"):
        Flag(name, 1, "help", alias=alias)


def test_a_bad_default_is_refused() -> None:
    with pytest.raises(InitError, match="type list of the default"):
        Flag("some", [1], "help")  # pyright: ignore[reportArgumentType, reportUnknownVariableType] - that is refused
    with pytest.raises(InitError, match="takes int >= 2, got 1"):
        Flag("some", 1, "help", minimum=2)


def test_names_and_aliases_are_unique() -> None:
    flag("first_test_flag", 1, "help", alias="Q")
    with pytest.raises(DuplicateError):
        flag("first_test_flag", 1, "help", alias="R")
    assert "R" not in flags.ALIASES
    with pytest.raises(DuplicateError):
        flag("second_test_flag", 1, "help", alias="Q")
    with pytest.raises(DuplicateError, match="the alias of another"):
        flag("Q", 1, "help")
    with pytest.raises(DuplicateError, match="the alias of another"):
        flag("third_test_flag", 1, "help", alias="first_test_flag")
    assert "second_test_flag" not in flags.FLAGS


def test_override_is_undone_also_after_an_error() -> None:
    count = Flag("count", 3, "how many")

    def fail() -> None:
        with count.override(7):
            assert (count.value, count.source) == (7, "override")
            count.set(8)
            assert count.value == 8
            raise ZeroDivisionError

    with count.override(5):
        with pytest.raises(ZeroDivisionError):
            fail()
        assert count.value == 5
    assert (count.value, count.source) == (3, "default")


@given(st.permutations(range(4)))
def test_overlapping_overrides_end_in_any_order(order: list[int]) -> None:
    count = Flag("count", -1, "how many")
    blocks = [count.override(i) for i in range(4)]
    for block in blocks:
        block.__enter__()
    living = set(range(4))
    for i in order:
        blocks[i].__exit__(None, None, None)
        living.remove(i)
        assert count.value == max(living, default=-1)


def test_threads_that_override_leave_the_value_as_it_was() -> None:
    count = Flag("count", 3, "how many")
    start = threading.Barrier(8)

    def work(value: int) -> None:
        start.wait()
        for _ in range(200):
            with count.override(value):
                assert count.value >= 10

    threads = [threading.Thread(target=work, args=(10 + i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (count.value, count.source) == (3, "default")


def test_the_environment_gives_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAZZA_TEST_COUNT", "4")
    count = flag("test_count", 3, "how many")
    assert (count.value, count.source) == (4, "environment")
    assert parse(["--test_count=5"]) == []
    assert (count.value, count.source) == (5, "command line")


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAZZA_TEST_COUNT", "many")
    count = flag("test_count", 3, "how many")
    with pytest.raises(InitError, match="environment variable TAZZA_TEST_COUNT takes int, got 'many'"):
        _ = count.value
    with pytest.raises(InitError, match="TAZZA_TEST_COUNT"):
        parse([])


def declare() -> tuple[Flag[bool], Flag[int], Flag[float], Flag[str]]:
    return (
        flag("test_shared", False, "shared or not"),
        flag("test_count", 3, "how many", alias="Z", minimum=-2),
        flag("test_rate", 0.5, "how fast"),
        flag("test_name", "a", "what it is called"),
    )


@pytest.mark.parametrize(
    ("words", "values", "rest"),
    [
        ([], (False, 3, 0.5, "a"), []),
        (["--test_shared", "file"], (True, 3, 0.5, "a"), ["file"]),
        (["--test_shared=YES"], (True, 3, 0.5, "a"), []),
        (["--test_shared", "--notest_shared"], (False, 3, 0.5, "a"), []),
        (["--test_shared", "--no-test-shared"], (False, 3, 0.5, "a"), []),
        (["--test_count=5", "--test_rate", "1e-3"], (False, 5, 1e-3, "a"), []),
        (["-test_count", "-2", "-7"], (False, -2, 0.5, "a"), ["-7"]),
        (["-Z", "9", "-"], (False, 9, 0.5, "a"), ["-"]),
        (["--test-name=", "x", "--", "--test_count=1"], (False, 3, 0.5, ""), ["x", "--test_count=1"]),
        (["--test_name", "--test_shared"], (False, 3, 0.5, "--test_shared"), []),
        (["--test_name=a=b", "--test_count=1", "--test_count=2"], (False, 2, 0.5, "a=b"), []),
    ],
)
def test_parse(words: list[str], values: tuple[object, ...], rest: list[str]) -> None:
    declared = declare()
    assert parse(words) == rest
    assert tuple(one.value for one in declared) == values


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--test_coumt=1"], "unknown flag '--test_coumt=1'\n  hint: did you mean test_count"),
        (["--notest_count"], "unknown flag '--notest_count'"),
        (["--notest_shared=1"], "unknown flag"),
        (["--=1"], "unknown flag"),
        (["--test_count"], "flag --test_count takes int >= -2, but nothing follows it"),
        (["--test_count=x"], "flag test_count takes int >= -2, got 'x'"),
        (["--test_count=-3"], "flag test_count takes int >= -2, got -3"),
        (["--test_count=1.5"], "got '1.5'"),
        (["--test_rate=fast"], "flag test_rate takes float, got 'fast'"),
        (["--test_shared=maybe"], "flag test_shared takes bool, got 'maybe'"),
        (["--test_shared="], "got ''"),
    ],
)
def test_parse_refuses_and_sets_nothing(words: list[str], message: str) -> None:
    _, _, _, name = declare()
    with pytest.raises(InitError) as raised:
        parse(["--test_name=b", *words])
    assert message in str(raised.value)
    assert name.value == "a"


def test_a_source_may_bring_a_flag_that_nobody_declared() -> None:
    brought: list[Flag[int]] = []

    def source(name: str) -> None:
        if name == "test_late" and not brought:
            brought.append(flag("test_late", 1, "comes late"))

    flags.FLAG_SOURCES.register("test source", source)
    assert parse(["--test_late=6"]) == []
    assert brought[0].value == 6


@given(st.floats(allow_nan=False))
def test_floats_survive_the_command_line(number: float) -> None:
    rate = Flag("rate", 0.0, "how fast")
    rate.setter(repr(number), "command line")()
    assert rate.value == number


def test_flags_help_lists_every_flag() -> None:
    declare()
    table = flags.flags_help().splitlines()
    assert table[0].split() == ["flag", "takes", "value", "from", "meaning"]
    assert len(table) == 1 + len(flags.FLAGS)
    (line,) = (line for line in table if "test_count" in line)
    assert line.split() == ["--test_count,", "-Z", "int", ">=", "-2", "3", "default", "how", "many"]
