"""Nets of Caffe 1, a `.prototxt` and a `.caffemodel`, as nets that tazza runs.

    translated = read_and_translate("deploy.prototxt", "trained.caffemodel", Options(is_test=True))
    translated.predict_net(), translated.init_net()

`caffe_pb2` has the messages. A further layer type is a function from a `Layer` to what was `Translated`, under the
decorator `layer`.
"""

from tazza.interop.caffe.layers import LAYERS, layer
from tazza.interop.caffe.messages import Layer, Translated
from tazza.interop.caffe.translation import Options, TranslatedNet, read_and_translate, translate

__all__ = ["LAYERS", "Layer", "Options", "Translated", "TranslatedNet", "layer", "read_and_translate", "translate"]
