"""How a picture becomes the input of a net, declared once: size, crop, colours, scale, mean, deviation, layout.

    prepare = Preprocessing(size=(224, 224), fit="crop", shorter=256, scale=1.0, mean=(104, 117, 123), colors="bgr")
    predictor.run(data=prepare("cat.jpg", "dog.jpg"))

Letters: N pictures, C colours, H and W height and width of the result. The numbers of a net are

    Y = (X * scale - mean) / std

with X in 0 ... 255, and `mean` and `std` one for all colours or one for each, in the order of `colors`.

Source: sizes and crops are those of ImageInput without chance (`ops/data/picture_change.py`): a picture that a net was
tested with in training looks the same here.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.picture import PIXELS_MAX
from tazza.errors import ArgumentError, FormatError, ShapeError
from tazza.images.files import BYTE_MAX, decoded, read_picture
from tazza.runtime.files import AnyPath, read_json, shown, write_bytes_atomically

if TYPE_CHECKING:
    from PIL.Image import Image

Fit = Literal["stretch", "crop", "pad"]
"""What becomes of a picture that has another size.

`stretch`: both sides are scaled, whatever the aspect. `crop`: it is scaled until it covers the size, and the middle is
cut out. `pad`: it is scaled until it fits in, and lies in the middle of zeros, which are the mean where there is one.
"""
Colors = Literal["rgb", "bgr", "grey", "rgba", "bgra"]
Order = Literal["NCHW", "NHWC"]
ElementType = Literal["float32", "uint8"]

FILE_BYTES_MAX = 1 << 20
FILE_NAME = "preprocessing.json"
"""What it is called beside a model."""

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """What is done to pictures before a net sees them. Calling it prepares some.

    Args:
        size: height and width of the result; None: pictures stay as large as they are.
        fit: how a picture of another size gets there.
        shorter: with `fit="crop"`, pixels of the shorter side before the middle is cut out; None: as few as will do.
        scale: what bytes are multiplied by.
        mean: subtracted then.
        std: what the rest is divided by.
        colors: which, in which order; `a` is alpha, which is 255.
        order: of the axes.
        invert: black becomes white first, for dark ink on a light ground.
        dtype: uint8 leaves bytes as they are, for nets that begin with bytes.

    Raises:
        ArgumentError: a value is out of its range, or two do not fit each other.

    >>> prepare = Preprocessing(size=(1, 2), scale=1.0, mean=(1, 2, 3), colors="bgr")
    >>> prepare(np.uint8([[[10, 20, 30], [10, 20, 30]]])).ravel()  # red, green and blue of two pixels
    array([29., 29., 18., 18.,  7.,  7.], dtype=float32)
    """

    size: tuple[int, int] | None = None
    fit: Fit = "stretch"
    shorter: int | None = None
    scale: float = 1 / 256
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    colors: Colors = "rgb"
    order: Order = "NCHW"
    invert: bool = False
    dtype: ElementType = "float32"

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ArgumentError(f"{name} = {getattr(self, name)!r}", hint=f"it is one of {', '.join(allowed)}")
        self._check_types()
        self._check_sizes()
        for name in ("mean", "std"):
            values: tuple[float, ...] = getattr(self, name)
            if len(values) not in (1, self.channels) or not all(map(math.isfinite, values)):
                raise ArgumentError(
                    f"{name} = {values} for the {self.channels} colours {self.colors}",
                    hint="give one number, or one for each colour",
                )
        if 0 in self.std or not math.isfinite(self.scale) or self.scale == 0:
            raise ArgumentError(f"std = {self.std} and scale = {self.scale}", hint="they are finite and not 0")
        plain = self.scale == 1 and not any(self.mean) and set(self.std) == {1}
        if self.dtype == "uint8" and not plain:
            raise ArgumentError("bytes stay as they are", hint="with dtype='uint8' scale and std are 1, mean is 0")

    def _check_types(self) -> None:
        """Say how a value is written where it is of another type, as in size=224 or mean=104."""
        size: Any = self.size
        if size is not None and not _is_tuple(size, int, count=2):
            raise ArgumentError(f"size = {size!r}", hint="height and width, such as size=(224, 224)")
        for name in ("mean", "std"):
            value: Any = getattr(self, name)
            if not _is_tuple(value, int | float):
                raise ArgumentError(f"{name} = {value!r}", hint=f"numbers in a tuple, such as {name}=(104.0,)")

    def _check_sizes(self) -> None:
        if self.size is not None and (min(self.size) < 1 or math.prod(self.size) > PIXELS_MAX):
            raise ArgumentError(f"size = {self.size}", hint=f"both are 1 or more, with {PIXELS_MAX} pixels at most")
        if self.shorter is None:
            return
        if self.size is None or self.fit != "crop":
            raise ArgumentError(f"shorter = {self.shorter} without a crop", hint="it goes with a size and fit='crop'")
        if not max(self.size) <= self.shorter <= PIXELS_MAX:
            raise ArgumentError(
                f"shorter = {self.shorter} is less than the size {self.size}", hint="a crop lies within the picture"
            )

    @property
    def channels(self) -> int:
        """How many colours the result has."""
        return CHANNELS[self.colors]

    # -- pictures to numbers -------------------------------------------------------------------------------------------

    def __call__(self, *pictures: Any) -> NDArray[Any]:
        """Return pictures as one batch: (N, C, H, W), or (N, H, W, C) with the order NHWC.

        Args:
            *pictures: each a path, the bytes of a file, an image of Pillow, or an array of pixels, (H, W) or (H, W, 3)
                in red, green, blue, of uint8.

        Raises:
            FileError, FormatError: a file is missing, or no picture.
            ShapeError: pictures come out in unlike sizes.
            DTypeError, ArgumentError: something is no picture.
        """
        if not pictures:
            raise ArgumentError("no picture was given", hint="pass at least one")
        made = [self.placed(picture) for picture in pictures]
        sizes = {pixels.shape[:2] for pixels in made}
        if len(sizes) > 1:
            told = " and ".join(f"{W}x{H}" for H, W in sorted(sizes)[:2])
            raise ShapeError(f"pictures of {told} pixels do not make one batch", hint="give them one size")
        return self.numbers(np.stack(made))

    def placed(self, picture: Any) -> Bytes:
        """Return one picture in its size and colours, as bytes (H, W, C); what is padded is not there yet."""
        pixels = self._bytes(picture)
        if self.invert:
            pixels[..., :3] = BYTE_MAX - pixels[..., :3]
        return pixels

    def numbers(self, pixels: Bytes) -> NDArray[Any]:
        """Return a batch of bytes (N, H, W, C), in these colours, as what the net takes."""
        made = pixels if self.dtype == "uint8" else self._normalized(pixels)
        made = self._padded(made)
        return np.ascontiguousarray(np.moveaxis(made, -1, 1) if self.order == "NCHW" else made)

    def _normalized(self, pixels: Bytes) -> Floats:
        made = pixels.astype(np.float32)
        made *= np.float32(self.scale)
        if any(self.mean):
            made -= np.asarray(self.mean, np.float32)
        if set(self.std) != {1.0}:
            made /= np.asarray(self.std, np.float32)
        return made

    def _padded(self, pixels: NDArray[Any]) -> NDArray[Any]:
        if self.size is None or self.fit != "pad" or pixels.shape[1:3] == self.size:
            return pixels
        H, W = self.size
        top, left = (H - pixels.shape[1]) // 2, (W - pixels.shape[2]) // 2
        made = np.zeros((len(pixels), H, W, pixels.shape[3]), pixels.dtype)
        made[:, top : top + pixels.shape[1], left : left + pixels.shape[2]] = pixels
        return made

    def _bytes(self, picture: Any) -> Bytes:
        image = self._image(picture).convert("L" if self.channels == 1 else "RGB")
        pixels = np.array(self.sized(image), np.uint8)
        if pixels.ndim == 2:
            return pixels[..., np.newaxis]
        if self.colors.startswith("bgr"):
            pixels = pixels[..., ::-1]
        if self.channels == 4:
            pixels = np.concatenate([pixels, np.full((*pixels.shape[:2], 1), BYTE_MAX, np.uint8)], axis=2)
        return np.ascontiguousarray(pixels)

    def _image(self, picture: Any) -> Image:
        if isinstance(picture, str | os.PathLike):
            return read_picture(cast("AnyPath", picture), grey=self.channels == 1)
        if isinstance(picture, bytes):
            return decoded(io.BytesIO(picture), len(picture), "the picture", grey=self.channels == 1)
        if isinstance(picture, np.ndarray):
            return as_image(cast("NDArray[Any]", picture))
        if hasattr(picture, "convert"):
            return picture
        raise ArgumentError(
            f"{type(picture).__name__} is no picture",
            hint="pass a path, the bytes of a file, an image of Pillow, or pixels",
        )

    def sized(self, image: Image) -> Image:
        """Return an image in the size of the result, or smaller where it will be padded.

        Raises:
            ShapeError: it would become too large on the way.
        """
        if self.size is None or ((image.height, image.width) == self.size and self.shorter is None):
            return image
        from PIL.Image import Resampling

        H, W = self._scaled_to(image.height, image.width, self.size)
        if H * W > PIXELS_MAX:
            raise ShapeError(
                f"a picture of {image.width}x{image.height} pixels would become {W}x{H}: over {PIXELS_MAX} pixels",
                hint="cut it, or scale it less",
            )
        made = image if (W, H) == image.size else image.resize((W, H), Resampling.BILINEAR)
        if self.fit != "crop":
            return made
        top, left = (H - self.size[0]) // 2, (W - self.size[1]) // 2
        return made.crop((left, top, left + self.size[1], top + self.size[0]))

    def _scaled_to(self, height: int, width: int, size: tuple[int, int]) -> tuple[int, int]:
        """Return height and width of a picture before it is cut or padded."""
        if self.fit == "stretch":
            return size
        if self.fit == "pad":
            ratio = min(size[0] / height, size[1] / width)
            return max(1, round(height * ratio)), max(1, round(width * ratio))
        if self.shorter is not None:
            shortest = min(height, width)
            return -(-height * self.shorter // shortest), -(-width * self.shorter // shortest)
        if size[0] * width >= size[1] * height:
            return size[0], -(-width * size[0] // height)
        return -(-height * size[1] // width), size[1]

    # -- files ---------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: AnyPath) -> Self:
        """Read what `write` wrote.

        Raises:
            FileError: the file is missing or cannot be read.
            FormatError: it is something else, or says what cannot be.
        """
        found = read_json(path, "preprocessing of pictures", FILE_BYTES_MAX)
        try:
            return cls.from_dict(found)
        except (ArgumentError, TypeError, ValueError, OverflowError) as error:
            told = error.message if isinstance(error, ArgumentError) else str(error)
            raise FormatError(f"{shown(path)} is no preprocessing of pictures: {told}") from error

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the one that these fields say, lists for tuples; fields that are left out have their defaults.

        Raises:
            ArgumentError: a field that there is not, or a value that cannot be.
        """
        if not isinstance(values, dict):
            raise ArgumentError(f"{type(values).__name__} is no table of fields")
        known = {field.name for field in fields(cls)}
        strange = sorted(values.keys() - known)
        if strange:
            raise ArgumentError(f"there is no field {strange[0]!r}", hint=f"fields: {', '.join(sorted(known))}")
        made = dict(values)
        for name, kind in TUPLES.items():
            if made.get(name) is not None:
                made[name] = tuple(_number(each, name, kind) for each in _listed(made[name], name))
        for name, kind in NUMBERS.items():
            if made.get(name) is not None:
                made[name] = _number(made[name], name, kind)
        if not isinstance(made.get("invert", False), bool):
            raise ArgumentError(f"invert = {made['invert']!r} is neither true nor false")
        if made.get("size") is not None and len(made["size"]) != 2:
            raise ArgumentError(f"size = {made['size']}", hint="height and width")
        return cls(**made)

    def write(self, path: AnyPath) -> None:
        """Write it as a small file of JSON, for `read`.

        Raises:
            FileError: the file cannot be written.
        """
        write_bytes_atomically(path, (json.dumps(asdict(self), indent=2) + "\n").encode())


def _is_tuple(value: object, kind: type | UnionType, *, count: int | None = None) -> bool:
    if not isinstance(value, tuple):
        return False
    elements = cast("tuple[object, ...]", value)
    return count in (None, len(elements)) and all(isinstance(each, kind) for each in elements)


CHANNELS: dict[str, int] = {"rgb": 3, "bgr": 3, "grey": 1, "rgba": 4, "bgra": 4}
CHOICES: dict[str, tuple[str, ...]] = {
    "fit": get_args(Fit),
    "colors": get_args(Colors),
    "order": get_args(Order),
    "dtype": get_args(ElementType),
}
TUPLES: dict[str, type[int] | type[float]] = {"size": int, "mean": float, "std": float}
NUMBERS: dict[str, type[int] | type[float]] = {"shorter": int, "scale": float}

IMAGENET = Preprocessing((224, 224), "crop", 256, 1 / 255, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""What most nets take that were trained on ImageNet outside of Caffe: colours in 0 ... 1, red first."""
CAFFE = Preprocessing((224, 224), "crop", 256, 1.0, (104.0, 117.0, 123.0), colors="bgr")
"""What most nets take that were trained in Caffe, or translated from there: bytes, blue first, the mean taken away."""
PRESETS: dict[str, Preprocessing] = {"caffe": CAFFE, "imagenet": IMAGENET}


def as_image(pixels: NDArray[Any]) -> Image:
    """Return bytes (H, W), (H, W, 1) or (H, W, 3) as an image of Pillow.

    Raises:
        ArgumentError: they are no bytes, or have other axes.
    """
    from PIL import Image

    flat = pixels[..., 0] if pixels.ndim == 3 and pixels.shape[2] == 1 else pixels
    colored = flat.ndim == 3 and flat.shape[2] == 3
    if pixels.dtype != np.uint8 or not (flat.ndim == 2 or colored) or 0 in flat.shape:
        raise ArgumentError(
            f"{pixels.dtype} of shape {pixels.shape} is no picture",
            hint="pass bytes (H, W), or (H, W, 3) in red, green, blue",
        )
    return Image.fromarray(np.ascontiguousarray(flat))


def as_bytes(values: NDArray[Any]) -> Bytes:
    """Return numbers in 0 ... 255 as bytes: rounded, kept within, and 0 for what is no number.

    >>> as_bytes(np.float32([-3, 1.6, 300, np.nan]))
    array([  0,   2, 255,   0], dtype=uint8)
    """
    if values.dtype == np.uint8:
        return values
    return np.rint(np.clip(np.nan_to_num(values, nan=0.0), 0, BYTE_MAX)).astype(np.uint8)


def _listed(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ArgumentError(f"{name} = {value!r} is no list")
    return cast("Sequence[Any]", value)


def _number(value: Any, name: str, kind: type[int] | type[float]) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | kind):
        raise ArgumentError(f"{name} = {value!r} is no {'whole number' if kind is int else 'number'}")
    return kind(value)
