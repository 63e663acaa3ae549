"""Nets of the zoo, which commands take by their names where there is no file of that name."""

from __future__ import annotations

from pathlib import Path

from tazza.cli.model_files import Described
from tazza.graph.inference import infer_net
from tazza.models.zoo import CLASSIFIERS
from tazza.runtime.files import kind_of
from tazza.tensor import DataType, TensorSpec


def is_of_zoo(model: str) -> bool:
    """Whether a net of the zoo is meant, and no file."""
    return kind_of(Path(model)) is None and model in CLASSIFIERS


def describe_zoo(name: str, batch: int = 1) -> Described:
    """Return a net of the zoo for so many images, and what is known of its blobs; nothing is made."""
    chosen = CLASSIFIERS[name]
    model = chosen.inference()
    net, init = model.net.export(), model.init_net.export()
    net.name = name
    parameters = {
        blob: spec
        for each in infer_net(init, {})
        for blob, spec in zip(each.definition.output, each.outputs, strict=True)
        if spec is not None
    }
    given = [blob for blob in net.external_input if blob not in parameters]
    return Described(net, parameters, dict.fromkeys(given, TensorSpec(chosen.input_shape(batch), DataType.FLOAT)))
