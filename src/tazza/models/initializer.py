"""What parameters start from: each initializer is a fill operator and its arguments.

    model.add_parameter("w", (20, 5), gaussian(std=0.01))

Any fill can be had with `Initializer("SomeFill", {...})`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tazza.data_class import dataclass
from tazza.errors import DTypeError, ShapeError
from tazza.models.net import BlobReference, Net
from tazza.tensor import DataType

GIVEN_FILLS = {
    DataType.FLOAT: "GivenTensorFill",
    DataType.DOUBLE: "GivenTensorDoubleFill",
    DataType.INT32: "GivenTensorIntFill",
    DataType.INT64: "GivenTensorInt64Fill",
    DataType.INT16: "GivenTensorInt16Fill",
    DataType.BOOL: "GivenTensorBoolFill",
    DataType.UINT8: "GivenTensorByteStringToUInt8Fill",
    DataType.STRING: "GivenTensorStringFill",
}
"""The operator that carries values of a type in its arguments; the format has none for the other types."""


@dataclass(frozen=True, slots=True)
class Initializer:
    """A fill operator, its arguments beside the shape, and the shape that it is bound to, if any."""

    type: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    shape: tuple[int, ...] | None = None

    def fill(self, net: Net, name: str, shape: Sequence[int]) -> BlobReference:
        """Add the operator that makes the blob `name` of this shape.

        Raises:
            ShapeError: the values that were given have another shape.
        """
        if self.shape is not None and self.shape != tuple(shape):
            raise ShapeError(
                f"parameter {name!r} has the shape {tuple(shape)}, the values given for it have {self.shape}"
            )
        return net.add(self.type, (), name, shape=list(shape), **self.arguments)


def constant(value: float | None = None) -> Initializer:
    """All elements `value` (an int makes int64, a float float32); 0.0 by default."""
    return Initializer("ConstantFill", {} if value is None else {"value": value})


def xavier() -> Initializer:
    """Uniform in +- sqrt(3 / fan_in); fan_in is the size by the first dimension. Source: Glorot, Bengio 2010."""
    return Initializer("XavierFill")


def msra() -> Initializer:
    """Gaussian of deviation sqrt(2 / fan_out); fan_out is the size by the second dimension, as in Caffe2."""
    return Initializer("MSRAFill")


def gaussian(mean: float = 0.0, std: float = 1.0) -> Initializer:
    """Gaussian of this mean and standard deviation."""
    return Initializer("GaussianFill", {"mean": float(mean), "std": float(std)})


def uniform(min: float = 0.0, max: float = 1.0) -> Initializer:
    """Uniform in [min, max)."""
    return Initializer("UniformFill", {"min": float(min), "max": float(max)})


def given(values: ArrayLike) -> Initializer:
    """These values; the parameter has their shape.

    >>> given(np.float32([[1, 2]])).type
    'GivenTensorFill'

    Raises:
        DTypeError: no fill operator carries this type.
    """
    array = np.asarray(values)
    dtype = DataType.of(array)
    if dtype not in GIVEN_FILLS:
        raise DTypeError(
            f"no fill operator carries {dtype.label} values",
            hint=f"these can be: {', '.join(sorted(known.label for known in GIVEN_FILLS))}; others go into a database",
        )
    flat: Any = array.ravel()
    stored: Any = [flat.tobytes()] if dtype is DataType.UINT8 else flat.tolist()
    return Initializer(GIVEN_FILLS[dtype], {"values": stored}, array.shape)
