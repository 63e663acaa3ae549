"""Typed flags: declaring, reading text, overriding, the environment, the command line."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tazza.cli.app import app
from tazza.errors import DuplicateError, InitError
from tazza.runtime import flag_index, flags
from tazza.runtime.flags import Flag, flag, parse


@pytest.fixture(autouse=True)
def own_flags() -> Iterator[None]:
    """Forget the flags that a test declares."""
    before = (set(flags.FLAGS.keys()), set(flags.ALIASES.keys()))
    yield
    for registry, kept in zip((flags.FLAGS, flags.ALIASES), before, strict=True):
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


def test_flags_of_kernels_that_nobody_set_tell_nothing_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """So what was prepared before a module declared one is found afterwards, in whichever order modules are loaded."""
    monkeypatch.setattr(flags, "_KERNEL_FLAGS", [])
    later, first = flag("test_b", 3, "later", kernels=True), flag("test_a", 1, "first", kernels=True)
    assert flags.kernel_flags() == ()
    with later.override(4):
        assert flags.kernel_flags() == (("test_b", 4),)
        with first.override(2):
            assert flags.kernel_flags() == (("test_a", 2), ("test_b", 4))
    assert flags.kernel_flags() == ()


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


@given(st.floats(allow_nan=False))
def test_floats_survive_the_command_line(number: float) -> None:
    rate = Flag("rate", 0.0, "how fast")
    rate.setter(repr(number), "command line")()
    assert rate.value == number


def test_the_index_is_up_to_date() -> None:
    assert flag_index.PATH.read_text() == flag_index.dump(flag_index.generate()), "run `make index`"


FRESH = """
import json, os, sys
import numpy, google.protobuf  # which take long, and declare no flags
from tazza.runtime.flags import FLAGS
from tazza.runtime.init import global_init

failed = {}
for name, words, text, source in json.loads(sys.stdin.read()):
    reading, writing = os.pipe()
    if os.fork() == 0:  # as fresh as this process, which has imported nothing that declares a flag
        os.close(reading)
        try:
            if source == "environment":
                os.environ[f"TAZZA_{name.upper()}"] = text
            rest = global_init(["p", *words, "word"])
            found = FLAGS[name]
            what = [str(found.value), found.source, rest]
        except BaseException as error:
            what = repr(error)
        os.write(writing, json.dumps(what).encode())
        os._exit(0)
    os.close(writing)
    what = json.loads(os.read(reading, 65536))
    os.close(reading)
    os.wait()
    if what != [text, source, ["p", "word"]]:
        failed[f"{words} {source}"] = what
print(json.dumps(failed))
"""


def another_value(one: Flag[Any]) -> str:
    """Return the text of a value that a flag takes and that is not its default."""
    if one.choices:
        return str(next(choice for choice in one.choices if choice != one.default))
    if one.kind is bool:
        return str(not one.default)
    return "some/where" if one.kind is str else str(one.kind(one.default + 1))


@pytest.mark.slow
def test_every_flag_can_be_set_in_a_fresh_process() -> None:
    """On the command line, by its alias and by its variable, before anything that declares it was imported."""
    asked: list[tuple[str, list[str], str, str]] = []
    for one in flags.all_flags():
        text = another_value(one)
        asked.append((one.name, [], text, "environment"))
        asked.append((one.name, [f"--{one.name.replace('_', '-')}={text}"], text, "command line"))
        if one.alias is not None:
            asked.append((one.name, [f"-{one.alias}", text], text, "command line"))
        if one.kind is bool:
            asked.append((one.name, [f"--no{one.name}" if one.default else f"--{one.name}"], text, "command line"))
    process = subprocess.run(
        [sys.executable, "-c", FRESH], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert process.stderr == ""
    assert json.loads(process.stdout) == {}
    assert {name for name, *_ in asked} >= set(flag_index.index()["flags"])


@pytest.mark.slow
def test_unknown_flags_and_values_are_refused_in_a_fresh_process() -> None:
    code = "from tazza.runtime.init import global_init\nglobal_init(['p', {!r}])"
    for word, message in (("--num_thread=1", "did you mean num_threads"), ("--num_threads=-1", "takes int >= 0")):
        process = subprocess.run([sys.executable, "-c", code.format(word)], capture_output=True, text=True, check=False)
        assert message in process.stderr


def test_the_command_lists_every_flag() -> None:
    result = CliRunner().invoke(app, ["--flag", "onednn_primitives=7", "flags"])
    assert result.exit_code == 0
    lines = {line.split()[0].rstrip(","): line for line in result.output.splitlines() if line.strip()}
    assert set(lines) >= set(flags.FLAGS.keys())
    assert lines["onednn_primitives"].split()[1:4] == ["7", "command", "line"]
