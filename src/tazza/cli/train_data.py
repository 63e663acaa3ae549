"""Which command `tazza train lenet` means: that of digits, or that of pictures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

DATA_OPTION = "--data"


def is_of_pictures(words: Sequence[str]) -> bool:
    """Whether the data that the options name are a folder of pictures or a file of arrays.

    >>> is_of_pictures(["--epochs", "3", "--data=mine.npz"]), is_of_pictures(["--data", "digits"])
    (True, False)
    """
    named = [word.partition("=")[2] for word in words if word.startswith(f"{DATA_OPTION}=")]
    named += [value for name, value in pairwise(words) if name == DATA_OPTION]
    if not named:
        return False
    path = Path(named[-1])
    if path.suffix == ".npz":
        return True
    from tazza.fitting.source import is_picture_folder

    return is_picture_folder(path)
