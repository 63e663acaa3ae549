"""Nets of Caffe 1 as nets of Caffe2: layer by layer, with their parameters."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from tazza.data_class import dataclass
from tazza.errors import FormatError, NotFoundError
from tazza.interop.caffe.caffe_pb2 import NetParameter, NetState
from tazza.interop.caffe.legacy_pad import without_legacy_pad
from tazza.interop.caffe.messages import Layer, Translated, first_input, parameters_by_layer
from tazza.interop.caffe.state import includes
from tazza.interop.caffe.windows import LAYERS
from tazza.interop.export import parameter_fill
from tazza.operator import read_first
from tazza.operator.definition import operator_def
from tazza.proto import NetDef, TensorProtos
from tazza.proto.message import read_message
from tazza.runtime.log import logger
from tazza.tensor.tensor_proto import array_to_tensor_proto, tensor_proto_to_array


def translate_layer(layer: Layer) -> Translated:
    """Return the operators and parameters of a layer.

    Raises:
        NotFoundError: nobody has registered what translates its type.
        UnsupportedError, FormatError: no operator does what it asks for; it is not well formed.
    """
    if layer.message.type not in LAYERS:
        raise NotFoundError(
            f"{layer} cannot be translated", hint="tazza.interop.caffe.layer registers what translates a type"
        )
    return LAYERS[layer.message.type](layer)


@dataclass(frozen=True)
class Options:
    """How a net is translated."""

    is_test: bool = False
    """Whether layers that differ while they train are translated as they are when they test."""
    state: NetState | None = None
    """Which layers there are; by default those of a net that tests."""
    input_shape: Sequence[int] = ()
    """Of the first input; by default what the net itself says."""
    remove_legacy_pad: bool = False
    """Whether pooling gets explicit padding, which holds for images of that size only."""
    layer: Callable[[Layer], Translated] = translate_layer


@dataclass(frozen=True)
class TranslatedNet:
    """A net, which has neither declared inputs nor outputs, and its parameters."""

    net: NetDef
    parameters: TensorProtos

    def predict_net(self) -> NetDef:
        """Return the net with its inputs and outputs: what nobody makes, and what nobody reads."""
        made = NetDef()
        made.CopyFrom(self.net)
        read = [name for op in made.op for name in op.input]
        written = [name for op in made.op for name in op.output]
        made.external_input.extend(read_first(made.op))
        made.external_output.extend(name for name in dict.fromkeys(written) if name not in read)
        return made

    def init_net(self) -> NetDef:
        """Return the net that makes the parameters, and the first input, as one number that is fed over."""
        fed = first_input(self.net, self.parameters)
        return initializing_net(self.parameters, fed)


def initializing_net(parameters: TensorProtos, input_name: str | None) -> NetDef:
    """Return a net that makes parameters, and an input as one number, which people feed over.

    Raises:
        DTypeError: a parameter is no float32.
    """
    net = NetDef()
    for one in parameters.protos:
        net.op.append(parameter_fill(one.name, tensor_proto_to_array(one)))
    if input_name is not None:
        net.op.append(operator_def("ConstantFill", [], [input_name], shape=[1]))
    return net


def shape_of_input(net: NetParameter) -> list[int]:
    """Return the shape of the first input as the net says it, in any of three ways; empty if it does not.

    >>> shape_of_input(NetParameter(input=["data"], input_dim=[1, 3, 8, 8]))
    [1, 3, 8, 8]
    """
    if net.input_dim:
        return [int(extent) for extent in net.input_dim]
    shapes = net.input_shape if net.input_shape else net.layer[0].input_param.shape if net.layer else ()
    return [int(extent) for extent in shapes[0].dim] if shapes else []


def name_of_input(net: NetParameter) -> str | None:
    """Return the name of the first input as the net says it, or None."""
    if net.input:
        return net.input[0]
    return next((layer.top[0] for layer in net.layer if layer.top and not layer.bottom), None)


def translate(net: NetParameter, weights: NetParameter, options: Options | None = None) -> TranslatedNet:
    """Translate a net, with the parameters of a trained one: layers belong together by their names.

    Args:
        net: layers, as a `deploy.prototxt` has them.
        weights: layers with their parameters, as a `.caffemodel` has them, in the new or the old form.
        options: see there.

    Raises:
        FormatError: layers in the old form, or one that is not well formed; parameters that do not fit.
        NotFoundError, UnsupportedError: a layer that cannot be translated.
    """
    chosen = Options() if options is None else options
    if net.layers:
        raise FormatError(
            f"net '{net.name}' has layers in the form of before 2015",
            hint="bring it to the present one by Caffe's upgrade_net_proto_text",
        )
    state = NetState() if chosen.state is None else chosen.state
    shape = list(chosen.input_shape) or shape_of_input(net)
    trained = parameters_by_layer(weights)
    made, parameters = NetDef(name=net.name), TensorProtos()
    for message in net.layer:
        if not includes(state, message):
            logger.info("layer %s is left out: the state of the net does not ask for it", message.name)
            continue
        blobs = trained.get(message.name, [])
        given = Layer(message, blobs, chosen.is_test, made, parameters, shape, name_of_input(net))
        translated = chosen.layer(given)
        made.op.extend(translated.operators)
        parameters.protos.extend(array_to_tensor_proto(array, name) for name, array in translated.parameters.items())
    if chosen.remove_legacy_pad:
        made = without_legacy_pad(made, parameters, _one_input(shape))
    return TranslatedNet(made, parameters)


def _one_input(shape: Sequence[int]) -> Sequence[int]:
    if len(shape) != 4:
        raise FormatError(
            f"pooling gets explicit padding for images of a known size, and the input has shape {list(shape)}",
            hint="say input_shape as four extents: images, channels, rows, columns",
        )
    return shape


def read_and_translate(
    net: str | os.PathLike[str], weights: str | os.PathLike[str], options: Options | None = None
) -> TranslatedNet:
    """Translate the nets of two files: a `.prototxt`, and a `.caffemodel`.

    Raises:
        FileError, FormatError: a file cannot be read, or is something else; and what `translate` raises.
    """
    return translate(read_message(net, NetParameter), read_message(weights, NetParameter), options)
