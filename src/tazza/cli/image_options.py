"""What the user says of pictures, and the preprocessing that follows: from a preset, from a file, from the net."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tazza.cli.model_files import ModelFiles
from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.images.preprocessing import FILE_NAME, PRESETS, Preprocessing
from tazza.interop.image_needs import ImageNeeds
from tazza.runtime.files import kind_of

NO_PRESET = "none"


@dataclass(frozen=True, slots=True)
class ImageWish:
    """Options of the command line as they were typed; None where one was left out."""

    preset: str | None = None
    size: str | None = None
    fit: str | None = None
    shorter: int | None = None
    scale: str | None = None
    mean: str | None = None
    std: str | None = None
    colors: str | None = None
    order: str | None = None
    invert: bool | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields of a preprocessing that are said, read.

        Raises:
            ArgumentError: one cannot be read.
        """
        plain = {"shorter": self.shorter, "colors": self.colors, "order": self.order, "invert": self.invert}
        found: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
        if self.size is not None:
            found["size"] = read_size(self.size)
        if self.fit is not None:
            found["fit"] = self.fit
        elif self.shorter is not None:
            found["fit"] = "crop"
        if self.scale is not None:
            found["scale"] = read_number(self.scale, "--scale")
        for name, text in (("mean", self.mean), ("std", self.std)):
            if text is not None:
                found[name] = read_numbers(text, f"--{name}")
        return found


@dataclass(frozen=True, slots=True)
class Chosen:
    """A preprocessing, and the file that it was read from, if it was."""

    prepare: Preprocessing
    file: Path | None = None


def choose_preprocessing(wish: ImageWish, model: ModelFiles, needs: ImageNeeds) -> Chosen:
    """Return what pictures go through: the wish, over a preset or the model's own file, over what the net says.

    Raises:
        ArgumentError: options that cannot be read, or do not fit each other or the net.
        FileError, FormatError: a file of settings is missing or broken.
    """
    said = wish.fields()
    found = _base(wish, model)
    if found is None:
        if not {"mean", "std"}.isdisjoint(said) and "scale" not in said:
            raise ArgumentError(
                "--mean and --std need --scale: are they of bytes, or of numbers from 0 to 1?",
                hint="--scale 1 for the first (104,117,123), --scale 1/255 for the second (0.485,0.456,0.406)",
            )
        base: dict[str, Any] = {"colors": _colors(needs), "order": needs.order, "dtype": needs.dtype}
        if needs.dtype == "uint8":
            base["scale"] = 1.0
        return Chosen(Preprocessing(**(base | said)))
    prepare = found.prepare
    if found.file is None:  # a preset says nothing of the net
        prepare = replace(prepare, order=needs.order)
    prepare = replace(prepare, **said)
    if needs.channels not in (None, prepare.channels):
        raise ArgumentError(
            f"the net takes {needs.channels} channels, {prepare.colors} has {prepare.channels}",
            hint="--colors says others, --preset none leaves the settings out",
        )
    return Chosen(prepare, found.file)


def settings_beside(model: ModelFiles) -> Path:
    """Return where the settings of a model lie, if there are any."""
    return model.main.with_name(FILE_NAME)


def _base(wish: ImageWish, model: ModelFiles) -> Chosen | None:
    if wish.preset == NO_PRESET:
        return None
    if wish.preset is None:
        beside = settings_beside(model)
        return None if kind_of(beside) is None else Chosen(Preprocessing.read(beside), beside)
    if wish.preset in PRESETS:
        return Chosen(PRESETS[wish.preset])
    path = Path(wish.preset)
    if kind_of(path) is None:
        raise ArgumentError(
            f"--preset {wish.preset!r} is no preset, and no file is called so",
            hint=f"presets: {', '.join([*PRESETS, NO_PRESET])}",
        )
    return Chosen(Preprocessing.read(path), path)


def _colors(needs: ImageNeeds) -> str:
    if needs.colors is not None:
        return needs.colors
    return {3: "rgb", 4: "rgba"}.get(1 if needs.channels is None else needs.channels, "grey")


def read_size(text: str) -> tuple[int, int]:
    """Read `224`, or `HEIGHT,WIDTH`.

    >>> read_size("224"), read_size("240,320")
    ((224, 224), (240, 320))
    """
    parts = text.split(",")
    if not 1 <= len(parts) <= 2 or not all(part.strip().isdecimal() for part in parts):
        raise ArgumentError(f"--size {text!r} is no size", hint="a number, or HEIGHT,WIDTH such as 240,320")
    return int(parts[0]), int(parts[-1])


def read_numbers(text: str, what: str) -> tuple[float, ...]:
    """Read numbers with commas between them.

    >>> read_numbers("104,117,1/2", "--mean")
    (104.0, 117.0, 0.5)
    """
    return tuple(read_number(part, what) for part in text.split(","))


def read_number(text: str, what: str) -> float:
    """Read a number or a quotient of two, such as 1/255.

    Raises:
        ArgumentError: it is neither.
    """
    over, _, under = text.partition("/")
    try:
        return float(over) / float(under) if under else float(text)
    except (ValueError, ZeroDivisionError) as error:
        raise ArgumentError(f"{what} {text!r} is no number", hint="such as 0.5 or 1/255") from error
