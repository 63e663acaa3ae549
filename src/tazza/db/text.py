"""Text to learn from, as numbers of characters: what is learned, and the end of it that is held back for tests.

text = read_characters(Path("shakespeare.txt"))
text.alphabet, text.train.shape, text.test.shape
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import FormatError
from tazza.runtime.files import read_text, shown

TEST_SHARE = 10
"""One character in so many is held back: the last ones."""

Numbers = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class CharacterText:
    """Characters as their places in the alphabet, which is sorted, so that it is the same for the same text."""

    alphabet: str
    train: Numbers
    test: Numbers

    def numbers(self, text: str) -> Numbers:
        """Return the places of characters.

        Raises:
            FormatError: one is not in the alphabet.
        """
        places = {character: place for place, character in enumerate(self.alphabet)}
        strange = next((character for character in text if character not in places), None)
        if strange is not None:
            raise FormatError(f"the character {strange!r} is not in the alphabet {self.alphabet!r}")
        return np.array([places[character] for character in text], np.int32)


def read_characters(path: Path) -> CharacterText:
    """Read a text, UTF-8, and hold its last tenth back.

    Raises:
        FileError: it cannot be read.
        FormatError: it is no text, or too short to hold something back.
    """
    text = read_text(path, "text to learn from")
    if len(text) < 2 * TEST_SHARE:
        raise FormatError(
            f"{shown(path)} has {len(text)} characters, at least {2 * TEST_SHARE} are needed", hint="name a longer text"
        )
    whole = CharacterText("".join(sorted(set(text))), np.empty(0, np.int32), np.empty(0, np.int32))
    numbers = whole.numbers(text)
    begin = len(numbers) - len(numbers) // TEST_SHARE
    return CharacterText(whole.alphabet, numbers[:begin], numbers[begin:])
