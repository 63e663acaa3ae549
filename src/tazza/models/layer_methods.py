"""The layers of this package as methods, for type checkers and editors alone: `model.conv` is known, `konv` refused.

At run time a model finds its layers in `LAYERS`, those of other packages too, which type checkers know as functions:
`their_layer(model, ...)`. A test holds this class to the registry.
"""

from __future__ import annotations

from tazza.models import layers, recurrent


class LayerMethods:
    """A method for each layer; the model stands first in the function, and is left out in the call."""

    conv = layers.conv
    fc = layers.fc
    embedding_bag = layers.embedding_bag
    spatial_bn = layers.spatial_bn
    max_pool = layers.max_pool
    average_pool = layers.average_pool
    lrn = layers.lrn
    relu = layers.relu
    clip = layers.clip
    dropout = layers.dropout
    concat = layers.concat
    softmax = layers.softmax
    softmax_with_loss = layers.softmax_with_loss
    label_cross_entropy = layers.label_cross_entropy
    averaged_loss = layers.averaged_loss
    accuracy = layers.accuracy
    scale = layers.scale
    cast = layers.cast
    stop_gradient = layers.stop_gradient
    copy = layers.copy
    reshape = layers.reshape
    add = layers.add
    sum = layers.sum
    iter = layers.iter
    lstm = recurrent.lstm
