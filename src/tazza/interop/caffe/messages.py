"""What a layer of Caffe 1 is translated from: its message, its parameters, and what was translated before it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import FormatError, UnsupportedError
from tazza.graph.inference import infer_net
from tazza.interop.caffe.caffe_pb2 import BlobProto, LayerParameter, NetParameter
from tazza.operator import Spec, read_first
from tazza.proto import NetDef, OperatorDef, TensorProtos
from tazza.tensor import DataType, TensorSpec

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Translated:
    """Operators, and parameters by name."""

    operators: Sequence[OperatorDef]
    parameters: Mapping[str, Array] = field(default_factory=dict[str, Array])


@dataclass(frozen=True)
class Layer:
    """A layer, its parameters, and what was translated before it."""

    message: LayerParameter
    blobs: Sequence[Array] = ()
    is_test: bool = False
    net: NetDef = field(default_factory=NetDef)
    parameters: TensorProtos = field(default_factory=TensorProtos)
    input_shape: Sequence[int] = ()
    """Of the first input of the net; empty if nobody says."""
    input_name: str | None = None
    """Of that input; by default what operators read first."""

    @property
    def bottom(self) -> list[str]:
        """Names of its inputs."""
        return list(self.message.bottom)

    @property
    def top(self) -> str:
        """Name of its output, after which its parameters are called."""
        if not self.message.top:
            raise FormatError(f"{self} has no top", hint="each layer that computes names what it makes")
        return self.message.top[0]

    def __str__(self) -> str:
        return f"layer '{self.message.name}' of type {self.message.type}"

    def blob(self, position: int) -> Array:
        """Return a parameter.

        Raises:
            FormatError: there are fewer.
        """
        if position >= len(self.blobs):
            raise FormatError(
                f"{self} has {len(self.blobs)} parameters in the trained net, and needs {position + 1}",
                hint="layers and their parameters go together by the name of the layer",
            )
        return self.blobs[position]

    def unsupported(self, what: str) -> UnsupportedError:
        """Return the error that says what of it cannot be translated."""
        return UnsupportedError(f"{self}: {what} cannot be translated")

    def shape_of(self, blob: str) -> tuple[int, ...]:
        """Return the shape of a blob that was made before.

        Raises:
            UnsupportedError: it does not follow from the shape of the input.
        """
        spec = shapes_of(self.net, self.parameters, self.input_shape, self.input_name).get(blob)
        if spec is None or not spec.shape_known:
            raise UnsupportedError(
                f"{self}: the shape of '{blob}' has to be known", hint="say the shape of the net's input (input_dims)"
            )
        return tuple(int(extent) for extent in spec.shape)


def shapes_of(
    net: NetDef, parameters: TensorProtos, input_shape: Sequence[int], input_name: str | None = None
) -> dict[str, TensorSpec]:
    """Return types and shapes of the blobs of a net as far as they follow from its first input and its parameters."""
    given: dict[str, Spec] = {one.name: TensorSpec(tuple(one.dims), DataType.FLOAT) for one in parameters.protos}
    fed = first_input(net, parameters) if input_name is None else input_name
    if fed is not None and input_shape:
        given[fed] = TensorSpec(tuple(input_shape), DataType.FLOAT)
    specs = dict(given)
    for made in infer_net(net, given):
        known = zip(made.definition.output, made.outputs, strict=True)
        specs.update((name, spec) for name, spec in known if spec is not None)
    return {name: spec for name, spec in specs.items() if isinstance(spec, TensorSpec)}


def first_input(net: NetDef, parameters: TensorProtos) -> str | None:
    """Return the first blob that a net reads, does not make, and that is no parameter."""
    made = {one.name for one in parameters.protos}
    return next((name for name in read_first(net.op) if name not in made), None)


def array_of(blob: BlobProto, owner: str) -> Array:
    """Return the numbers of a blob in its shape, (num, channels, height, width) in the old form.

    Raises:
        FormatError: there are more or fewer numbers than the shape has.
    """
    old = (blob.num, blob.channels, blob.height, blob.width)
    shape = tuple(int(extent) for extent in (blob.shape.dim if blob.HasField("shape") else old))
    numbers = blob.double_data if blob.double_data else blob.data
    if min(shape, default=0) < 0 or math.prod(shape) != len(numbers):
        raise FormatError(f"{owner}: a parameter of shape {shape} has {len(numbers)} numbers")
    return np.array(numbers, np.float32).reshape(shape)


def parameters_by_layer(weights: NetParameter) -> dict[str, list[Array]]:
    """Return the parameters of each layer of a trained net, in the new or the old form, by its name.

    Raises:
        FormatError: two layers of one name; a parameter whose numbers do not fill its shape.
    """
    found: dict[str, list[Array]] = {}
    for layer in (*weights.layer, *weights.layers):
        arrays = [array_of(blob, f"layer '{layer.name}' of the trained net") for blob in layer.blobs]
        if layer.name in found and arrays and found[layer.name]:
            raise FormatError(f"the trained net has two layers named '{layer.name}' with parameters")
        found[layer.name] = arrays if arrays else found.get(layer.name, [])
    return found
