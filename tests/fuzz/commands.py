"""The commands with words and files that do not fit: each ends with a documented status, and without a traceback."""

from __future__ import annotations

import contextlib
import importlib
import io
import platform
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np
import typer.main

from tazza.cli.app import INTERRUPTED, app
from tazza.operator import SCHEMAS, prefer_engines
from tazza.proto import NetDef
from tazza.proto.message import format_text, parse
from tazza.runtime.flags import FLAGS
from tests.fuzz import extremes, files, net_acts, nets
from tests.fuzz.byte_mutation import damage
from tests.fuzz.case import Case

STATUSES = (0, 1, 2, INTERRUPTED)
"""What worked, what tazza refused, what is no command line, what was interrupted."""
MODEL = Path(__file__).parents[1] / "data" / "interop" / "small" / "predictor.minidb"
NUMBERS = ("0", "1", "2", "-1", "3.5", "nan", "1e99", "99999999999999999999", "", "x")
SHAPES = (
    "x=1,2",
    "data=1,2",
    "data=",
    "data",
    "=1",
    "data:uint8=1,2",
    "data:nope=1",
    "data=-1,2",
    "data=99999999999,99999999999",
    "data=1,2,3,4,5",
    "data=1.5",
    "\0=1",
    "data=1_0",
)
GROUP = cast("Any", typer.main.get_command(app))
OPTIONS: dict[str, tuple[str, ...]] = {
    name: tuple(each.opts[0] for each in command.params if each.opts[0].startswith("--"))
    for name, command in GROUP.commands.items()
}
BARE = (
    "--help",
    *sorted(
        each.opts[0]
        for command in (GROUP, *GROUP.commands.values())
        for each in command.params
        if getattr(each, "is_flag", False)
    ),
)
"""Options that take no value."""
FILES = (
    "net.pb",
    "net.pbtxt",
    "model.minidb",
    "image.npy",
    "noise",
    "missing",
    ".",
    "init_net.pb",
    "image.png",
    "images-idx3",
)


class StatusError(Exception):
    """A command ended with a status that is not documented, or told a traceback."""


def draw(seed: int) -> Case:
    """Draw a command line, and the files that lie around it."""
    source = Random(f"commands {seed}")
    command = source.choice((*OPTIONS, "show", "show", "predict", "profile", "", extremes.text(source)))
    words = _global(source)
    words.append(command)
    words += _words(source, command)
    for _ in range(source.choice((0, 0, 1, 2))):
        position = source.randrange(len(words) + 1)
        words[position : position + source.randrange(2)] = [extremes.text(source)]
    if "train" in words and "lenet" in words:  # a whole training; its own tests do that
        words.remove("lenet")
    net, _ = nets.drawn_net(source)
    parts = {
        "net.pb": net.SerializeToString(),
        "net.pbtxt": format_text(net).encode(),
        "model.minidb": _model() if source.random() < 0.6 else damage(source, _model(), b"x"),
        "noise": source.randbytes(40),
        "image.npy": _array(source.choice(((1, 2), (3, 2), (1, 1, 1, 2), (0, 2), ()))),
    }
    return Case("commands", seed, parts, tuple(words))


def _global(source: Random) -> list[str]:
    if source.random() < 0.85:
        return []
    return (
        ["--flag", f"{source.choice(_flags())}={source.choice((*NUMBERS, 'true'))}"]
        if source.random() < 0.8
        else ["--debug"]
    )


def _words(source: Random, command: str) -> list[str]:
    words: list[str] = []
    if command in ("show", "predict", "profile") and source.random() < 0.9:
        words.append(source.choice(FILES[:3]) if source.random() < 0.7 else source.choice(FILES))
    if command == "predict":
        words += [source.choice(FILES) for _ in range(source.choice((0, 1, 1, 2)))]
    if command == "profile":
        words += ["--runs", "1"]
    if command == "ops" and source.random() < 0.5:
        words.append(_value(source, "--operator"))
    # What `--trust` lets a net do is no business of the guard's.
    known = [each for each in (*OPTIONS.get(command, ()), "--help", "--debug", "--version") if each != "--trust"]
    for _ in range(source.choice((0, 1, 1, 2, 4))):
        option = source.choice(known) if source.random() < 0.95 else f"--{extremes.text(source)}"
        words.append(option)
        if option not in BARE:
            words.append(_value(source, option))
    return words


def _value(source: Random, option: str) -> str:
    if option == "--operator":
        return source.choice(sorted(SCHEMAS.keys())) if source.random() < 0.8 else extremes.text(source)
    if option in ("--family", "--engine"):
        return source.choice(("nn", "nn.conv", "native", "onednn", "", extremes.text(source)))
    if option == "--type":
        return source.choice(("simple", "plan", "dag", "async_scheduling", "nope", ""))
    if option in ("--trace", "--picture"):
        return source.choice(("run.json", "run.svg", "run.nope", "", "no/where/run.png", "."))
    if option == "--input":
        return source.choice(("data", "x", "", extremes.text(source)))
    if option == "--device":
        return source.choice(("cpu", "cpu", "cuda", ""))
    if option == "--shape":
        return source.choice(SHAPES)
    if option == "--init-net":
        return source.choice(FILES)
    value = source.choice(NUMBERS)
    return "3" if option in ("--runs", "--workers", "--batch", "--size") and len(value) > 3 else value


def attempt(case: Case, folder: Path) -> None:
    """Run the command in this process."""
    for name, data in case.parts.items():
        (folder / name).write_bytes(data)
    told = io.StringIO()
    status: object = 0
    with files.unchanged_flags(), contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        try:
            app(list(case.words), prog_name="tazza")
        except SystemExit as ended:
            status = ended.code
        finally:
            prefer_engines([])
    if status not in STATUSES or ("Traceback" in told.getvalue() and "--debug" not in case.words):
        raise StatusError(f"status {status}: {told.getvalue()[-500:]}")


def prepare() -> None:
    """Run each command once, and start what nets start."""
    platform.processor()  # asks another program, once; `doctor` tells what it says
    importlib.import_module("matplotlib.font_manager")  # asks programs for fonts, once
    files.prepare()
    net_acts.prepare()
    for seed in range(12):
        case = draw(seed)
        with contextlib.suppress(Exception):
            attempt(case, Path())
    parse(NetDef, b"", "warm-up")


@cache
def _model() -> bytes:
    return MODEL.read_bytes()


@cache
def _array(shape: tuple[int, ...]) -> bytes:
    file = io.BytesIO()
    np.save(file, np.ones(shape, np.float32))
    return file.getvalue()


@cache
def _flags() -> tuple[str, ...]:
    return tuple(sorted(FLAGS))
