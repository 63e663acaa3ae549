"""Pictures and nets: how files become inputs, what classes are called, and outputs that are pictures.

The names below are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tazza.runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from tazza.images.batch import read_images
    from tazza.images.files import image_files
    from tazza.images.labels import read_labels
    from tazza.images.output import as_picture, write_picture
    from tazza.images.preprocessing import CAFFE, IMAGENET, Preprocessing

__all__ = [
    "CAFFE",
    "IMAGENET",
    "Preprocessing",
    "as_picture",
    "image_files",
    "read_images",
    "read_labels",
    "write_picture",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".batch": ("read_images",),
        ".files": ("image_files",),
        ".labels": ("read_labels",),
        ".output": ("as_picture", "write_picture"),
        ".preprocessing": ("CAFFE", "IMAGENET", "Preprocessing"),
    },
)
