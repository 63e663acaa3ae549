"""What a training was asked to do: defaults, options, and what an earlier run in the same folder was asked."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, field, fields, replace
from pathlib import Path
from typing import Any, Self, cast

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, FormatError
from tazza.fitting.solver import Solver
from tazza.runtime.files import read_json, shown, write_bytes_atomically


@dataclass(frozen=True, slots=True)
class StoredSettings:
    """Options of a command, which a file keeps."""

    tensorboard: bool = field(default=False, kw_only=True)
    """Whether files for TensorBoard are written."""

    def write(self, path: Path) -> None:
        """Write the settings to a file.

        Raises:
            FileError: it cannot be written.
        """
        write_bytes_atomically(path, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `write` wrote.

        Raises:
            FileError: it cannot be read.
            FormatError: it is something else.
        """
        stored: Any = read_json(path, "file with the settings of a training")
        names = cast("dict[str, Any]", stored if isinstance(stored, dict) else {"": stored})
        kinds = {each.name: str(each.type).split(" | ") for each in fields(cls)}
        for name, value in names.items():
            if name not in kinds or not any(_is(kind, value) for kind in kinds[name]):
                wanted = " or ".join(kinds.get(name, ["nothing of this name"]))
                raise FormatError(
                    f"{shown(path)} does not hold the settings of a training: {name!r} is {value!r:.60}, not {wanted}",
                    hint="start without --resume",
                )
        return cls(**names)  # what an older file does not say has its default


@dataclass(frozen=True, slots=True)
class TrainSettings(StoredSettings):
    """Options of `tazza train`, see its help. None stands for what follows from others."""

    data: str = "digits"
    test_data: str | None = None
    net: str | None = None
    init_net: str | None = None
    iterations: int | None = None
    epochs: float | None = None
    batch_size: int = 64
    learning_rate: float | None = None
    momentum: float | None = None
    weight_decay: float | None = None
    policy: str | None = None
    gamma: float | None = None
    stepsize: int | None = None
    power: float | None = None
    solver: str | None = None
    seed: int = 1
    engine: str | None = None
    net_type: str | None = None
    workers: int | None = None
    checkpoint_every: int | None = None

    EPOCHS = 10.0
    LEARNING_RATE = 0.05

    def updated(self, given: Mapping[str, Any]) -> TrainSettings:
        """Return the settings with the options that were given.

        Raises:
            ArgumentError: options that do not go together.
        """
        check_length(given)
        length = {"iterations": None, "epochs": None} if {"iterations", "epochs"} & given.keys() else {}
        return replace(self, **{**length, **given})

    def check(self) -> None:
        """Check options against each other.

        Raises:
            ArgumentError: they do not go together, or are out of range.
        """
        if (self.net is None) != (self.init_net is None):
            raise ArgumentError("--net and --init-net go together", hint="pass both, or neither to train LeNet")
        solver = ("learning_rate", "momentum", "weight_decay", "policy", "gamma", "stepsize", "power", "solver")
        own = [name for name in solver if getattr(self, name) is not None]
        if self.net is not None and own:
            raise ArgumentError(
                f"--{own[0].replace('_', '-')} has no effect on --net {self.net}, which updates its parameters itself",
                hint="change the net, or leave the option out",
            )
        self.chosen_solver()

    def iterations_of(self, records: int) -> int:
        """Return how many iterations are wanted, over so many records."""
        if self.iterations is not None:
            return self.iterations
        epochs = self.EPOCHS if self.epochs is None else self.epochs
        return max(1, math.ceil(epochs * records / self.batch_size))

    def chosen_solver(self) -> Solver:
        """Return how LeNet learns.

        Raises:
            ArgumentError: a rate or a momentum is out of its range.
        """
        own = ("momentum", "weight_decay", "gamma", "stepsize", "power")
        options = {name: value for name in own if (value := getattr(self, name)) is not None}
        named = {"name": self.solver, "policy": self.policy}
        return Solver(
            learning_rate=self.LEARNING_RATE if self.learning_rate is None else self.learning_rate,
            options=options,
            **{name: value for name, value in named.items() if value is not None},
        )


def check_length(given: Mapping[str, Any]) -> None:
    """Check that options say in one way how long a training is.

    Raises:
        ArgumentError: they say it in two.
    """
    if "iterations" in given and "epochs" in given:
        raise ArgumentError(
            f"--iterations {given['iterations']} and --epochs {given['epochs']:g} are both given", hint="pass one"
        )


def _is(kind: str, value: object) -> bool:
    """Whether a value of JSON is of the type that a setting is declared with."""
    types = {"None": (type(None),), "str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}
    if kind == "dict[str, str]":
        return isinstance(value, dict) and all(type(each) is str for each in cast("dict[str, Any]", value).values())
    return type(value) in types[kind]
