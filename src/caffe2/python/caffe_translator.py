"""Nets of Caffe 1 as nets of Caffe2; `tazza.interop.caffe` does the work.

    python -m caffe2.python.caffe_translator deploy.prototxt trained.caffemodel

A function that is registered for a layer type gets the layer, its trained parameters and whether the net tests; it
returns an operator or a list of them, and a list of parameters. The messages are `caffe2.proto.caffe_pb2`; those of an
installed Caffe are taken as well.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from caffe2.proto import caffe2_legacy_pb2, caffe2_pb2, caffe_pb2
from caffe2.python import core, utils, workspace
from tazza.errors import NotFoundError
from tazza.interop.caffe import LAYERS, Layer, Options, Translated, read_and_translate
from tazza.interop.caffe import translate as translate_net
from tazza.interop.caffe.translation import initializing_net
from tazza.operator.definition import operator_def
from tazza.proto.message import write_message
from tazza.tensor.tensor_proto import array_to_tensor_proto, tensor_proto_to_array

__all__ = ["caffe2_legacy_pb2", "caffe2_pb2", "caffe_pb2", "core", "np", "utils", "workspace"]

logging.basicConfig()
log = logging.getLogger("caffe_translator")
log.setLevel(logging.INFO)


class TranslatorRegistry:
    """What translates layers, by their type."""

    registry_: ClassVar[dict[str, Callable[..., Any]]] = {}

    @classmethod
    def Register(cls, op_name: str) -> Callable[[Any], Any]:
        """Return a decorator that registers a function for a layer type; the last one counts."""

        def decorate(function: Any) -> Any:
            cls.registry_[op_name] = function
            return function

        return decorate

    @classmethod
    def TranslateLayer(
        cls, layer: Any, pretrained_blobs: Sequence[Any], is_test: bool, **kwargs: Any
    ) -> tuple[list[Any], Any]:
        """Return the operators and the parameters of a layer.

        Raises:
            NotFoundError: nobody has registered its type.
            UnsupportedError, FormatError: what the layer asks for cannot be done.
        """
        if layer.type not in cls.registry_:
            raise NotFoundError(f"layer '{layer.name}' is of type {layer.type}, which nobody translates")
        ops, params = cls.registry_[layer.type](layer, pretrained_blobs, is_test, **kwargs)
        return (cast("list[Any]", ops) if isinstance(ops, list) else [ops]), params

    @classmethod
    def TranslateModel(
        cls,
        caffe_net: Any,
        pretrained_net: Any,
        is_test: bool = False,
        net_state: Any = None,
        remove_legacy_pad: bool = False,
        input_dims: Sequence[int] | None = None,
    ) -> tuple[caffe2_pb2.NetDef, caffe2_pb2.TensorProtos]:
        """Return a net, and its parameters.

        Args:
            caffe_net: layers.
            pretrained_net: layers of the same names with their parameters.
            is_test: whether layers do what they do when they test.
            net_state: which layers there are; by default those of a net that tests.
            remove_legacy_pad: whether pooling gets explicit padding, for images of this size.
            input_dims: shape of the first input; by default what the net says.

        Raises:
            FormatError, NotFoundError, UnsupportedError: see `tazza.interop.caffe.translate`.
        """

        def one(layer: Layer) -> Translated:
            log.info("Translate layer %s", layer.message.name)
            beside = {"net": layer.net, "net_params": layer.parameters, "input_dims": layer.input_shape}
            blobs = list(layer.blobs)
            ops, params = cls.TranslateLayer(layer.message, blobs, layer.is_test, **beside)
            return Translated(ops, {proto.name: tensor_proto_to_array(proto) for proto in params})

        shape = () if input_dims is None else list(input_dims)
        options = Options(is_test, net_state, shape, remove_legacy_pad, one)
        translated = translate_net(caffe_net, pretrained_net, options)
        return translated.net, translated.parameters


def TranslateModel(*args: Any, **kwargs: Any) -> Any:
    """Return a net and its parameters; see `TranslatorRegistry.TranslateModel`."""
    return TranslatorRegistry.TranslateModel(*args, **kwargs)


def ConvertTensorProtosToInitNet(net_params: caffe2_pb2.TensorProtos, input_name: str) -> caffe2_pb2.NetDef:
    """Return a net that makes parameters, and an input of one number, which is fed over."""
    return initializing_net(net_params, input_name)


def BaseTranslate(layer: Any, caffe2_type: str) -> caffe2_pb2.OperatorDef:
    """Return an operator with the inputs and outputs of a layer."""
    return operator_def(caffe2_type, list(layer.bottom), list(layer.top))


def AddArgument(op: caffe2_pb2.OperatorDef, key: str, value: Any) -> None:
    """Add an argument to an operator."""
    op.arg.extend([utils.MakeArgument(key, value)])


def _translating(type: str) -> Any:
    """Return the function for a layer type of `tazza.interop.caffe`, and register it."""

    def translate(layer: Any, pretrained_blobs: Any, is_test: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        """Return an operator, or a list of them, and the parameters of a layer."""
        arrays = [np.asarray(blob) for blob in pretrained_blobs]
        given = Layer(
            layer,
            arrays,
            bool(is_test),
            kwargs.get("net", caffe2_pb2.NetDef()),
            kwargs.get("net_params", caffe2_pb2.TensorProtos()),
            kwargs.get("input_dims", ()),
        )
        made = LAYERS[type](given)
        ops = list(made.operators)
        params = [array_to_tensor_proto(array, name) for name, array in made.parameters.items()]
        return (ops[0] if len(ops) == 1 else ops), params

    return TranslatorRegistry.Register(type)(translate)


TranslateInput = _translating("Input")
TranslateVideoData = _translating("VideoData")
TranslateData = _translating("Data")
TranslateConvNd = _translating("Convolution3D")
TranslateConv = _translating("Convolution")
TranslateDeconv = _translating("Deconvolution")
TranslateCrop = _translating("Crop")
TranslateRelu = _translating("ReLU")
TranslatePool = _translating("Pooling")
TranslatePool3D = _translating("Pooling3D")
TranslateLRN = _translating("LRN")
TranslateInnerProduct = _translating("InnerProduct")
TranslateDropout = _translating("Dropout")
TranslateSoftmax = _translating("Softmax")
TranslateSoftmaxWithLoss = _translating("SoftmaxWithLoss")
TranslateAccuracy = _translating("Accuracy")
TranslateConcat = _translating("Concat")
TranslateTanH = _translating("TanH")
TranslateInstanceNorm = _translating("InstanceNorm")
TranslateBatchNorm = _translating("BatchNorm")
TranslateElementWise = _translating("Eltwise")
TranslateScale = _translating("Scale")
TranslateReshape = _translating("Reshape")
TranslateFlatten = _translating("Flatten")
TranslateSigmoid = _translating("Sigmoid")
TranslateROIPooling = _translating("ROIPooling")
TranslatePRelu = _translating("PReLU")
TranslateReduction = _translating("Reduction")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Translate a trained net of Caffe 1.")
    parser.add_argument("prototext", help="the layers, a .prototxt")
    parser.add_argument("caffemodel", help="the trained net")
    parser.add_argument("--init_net", default="init_net.pb", help="where the net that makes the parameters goes")
    parser.add_argument("--predict_net", default="predict_net.pb", help="where the net that predicts goes")
    parser.add_argument("--remove_legacy_pad", action="store_true", help="give pooling explicit padding")
    parser.add_argument("--input_dims", nargs="+", type=int, default=[], help="shape of the input")
    return parser


def main() -> None:
    """Translate the nets of two files, and write both nets, and the one that predicts as text too."""
    given = _options().parse_args()
    options = Options(True, None, given.input_dims, given.remove_legacy_pad)
    translated = read_and_translate(given.prototext, given.caffemodel, options)
    predict = translated.predict_net()
    path = Path(cast("str", given.predict_net))
    write_message(path, predict)
    write_message(path.with_suffix(".pbtxt"), predict)
    write_message(Path(cast("str", given.init_net)), translated.init_net())


if __name__ == "__main__":
    main()
