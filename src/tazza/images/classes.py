"""What a net that classifies says of images: the best classes of each, under the name of what it is from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ShapeError

SUM_NEAR = 1e-2
"""Scores of one image that are 0 or more, with a sum so near to 1, are shown as probabilities."""


@dataclass(frozen=True, slots=True)
class Image:
    """Where an image is from; `row` counts those of one file from 0, None: it is the only one."""

    path: Path
    row: int | None = None

    def __str__(self) -> str:
        text = str(self.path)
        shown = text if text.isprintable() else repr(text)[1:-1]
        return shown if self.row is None else f"{shown}[{self.row}]"

    def fields(self) -> dict[str, Any]:
        """Return what tells it, for programs."""
        found: dict[str, Any] = {"image": str(Image(self.path))}
        return found if self.row is None else found | {"row": self.row}


@dataclass(frozen=True, slots=True)
class Guess:
    """A class, what it is called (its number, where nobody says), and its score."""

    number: int
    label: str | None
    score: float

    @property
    def name(self) -> str:
        """The label, or the number."""
        return str(self.number) if self.label is None else self.label

    def fields(self) -> dict[str, Any]:
        """Return what it is, for programs; a score that is no number is None."""
        found: dict[str, Any] = {"class": self.number}
        if self.label is not None:
            found["label"] = self.label
        return found | {"score": self.score if math.isfinite(self.score) else None}


@dataclass(frozen=True, slots=True)
class Classes:
    """The best classes of an image; `probable`: scores are probabilities."""

    image: Image
    guesses: tuple[Guess, ...]
    probable: bool

    def score(self, guess: Guess) -> str:
        """Return a score for people."""
        return f"{guess.score:.1%}" if self.probable else f"{guess.score:.4g}"

    def fields(self) -> dict[str, Any]:
        """Return what it is, for programs."""
        return self.image.fields() | {"classes": [guess.fields() for guess in self.guesses]}


def classify(image: Image, scores: NDArray[Any], top: int, labels: Sequence[str] | None) -> Classes:
    """Return the best classes of an image from what a net made of it, one score a class.

    Raises:
        ShapeError: there are not as many labels as classes.
    """
    flat = np.asarray(scores, np.float64).reshape(-1)
    probable = bool(flat.min(initial=0) >= 0 and abs(flat.sum() - 1) < SUM_NEAR)
    return Classes(image, best_guesses(flat, top, labels), probable)


def best_guesses(scores: NDArray[Any], top: int, labels: Sequence[str] | None) -> tuple[Guess, ...]:
    """Return the classes of the `top` highest scores, best first; the first of equal ones.

    Raises:
        ShapeError: there are not as many labels as scores, or these are no row of classes.

    >>> [guess.name for guess in best_guesses(np.float32([0.1, 0.7, 0.2]), 2, ["cup", "saucer", "spoon"])]
    ['saucer', 'spoon']
    """
    flat = np.asarray(scores, np.float64).reshape(-1)
    if labels is not None and len(labels) != flat.size:
        raise ShapeError(
            f"{len(labels)} labels for {flat.size} classes", hint="--labels names a file with as many as the net has"
        )
    numbers = [int(one) for one in np.argsort(-flat, kind="stable")[:top]]
    return tuple(Guess(one, None if labels is None else labels[one], float(flat[one])) for one in numbers)
