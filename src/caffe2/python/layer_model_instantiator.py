"""Nets of a model of layers: to train, to test, to predict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from caffe2.python import core, schema
from caffe2.python.layers.layers import InstantiationContext
from caffe2.python.layers.tags import Tags


def _layers(model: Any, include_tags: Iterable[str] | None, left_out: str) -> Iterator[Any]:
    wanted = None if include_tags is None else set(include_tags)
    for layer in model.layers:
        if left_out not in layer.tags and (wanted is None or wanted & set(layer.tags)):
            yield layer


def shrink_output_schema(net: Any, out_schema: Any) -> Any:
    """Return what of a record a net makes; a single column is taken to be made."""
    if len(out_schema.field_names()) <= 1:
        return out_schema
    made = [net.BlobIsDefined(blob) for blob in out_schema.field_blobs()]
    columns = zip(out_schema.field_names(), out_schema.field_types(), out_schema.field_blobs(), strict=True)
    names, types, blobs = zip(*(column for column, is_made in zip(columns, made, strict=True) if is_made), strict=True)
    return schema.from_column_list(names, types, blobs)


def generate_predict_net(model: Any, include_tags: Iterable[str] | None = None) -> Any:
    """Return the net that predicts."""
    net = core.Net("predict_net")
    for layer in _layers(model, include_tags, Tags.EXCLUDE_FROM_PREDICTION):
        layer.add_operators(net, context=InstantiationContext.PREDICTION)
    net.set_input_record(model.input_feature_schema.clone())
    net.set_output_record(shrink_output_schema(net, model.output_schema.clone()))
    return net


def generate_eval_net(model: Any, include_tags: Iterable[str] | None = None) -> Any:
    """Return the net that tests."""
    net = core.Net("eval_net")
    for layer in _layers(model, include_tags, Tags.EXCLUDE_FROM_EVAL):
        layer.add_operators(net, context=InstantiationContext.EVAL)
    net.set_input_record(model.input_feature_schema + model.trainer_extra_schema)
    net.set_output_record(model.output_schema + model.metrics_schema)
    return net


def _forward(model: Any, include_tags: Iterable[str] | None) -> tuple[Any, Any]:
    init_net, net = model.create_init_net("train_init_net"), core.Net("train_net")
    for layer in _layers(model, include_tags, Tags.EXCLUDE_FROM_TRAIN):
        layer.add_operators(net, init_net)
    return init_net, net


def _with_records(model: Any, net: Any) -> None:
    net.set_input_record(model.input_feature_schema + model.trainer_extra_schema)
    net.set_output_record(model.output_schema + model.metrics_schema)


def generate_training_nets_forward_only(model: Any, include_tags: Iterable[str] | None = None) -> tuple[Any, Any]:
    """Return the net that makes parameters, and the one that trains as far as its loss."""
    init_net, net = _forward(model, include_tags)
    _with_records(model, net)
    return init_net, net


def generate_training_nets(model: Any, include_tags: Iterable[str] | None = None) -> tuple[Any, Any]:
    """Return the net that makes parameters, and the one that trains."""
    init_net, net = _forward(model, include_tags)
    model.apply_regularizers_on_loss(net, init_net)
    if not model.has_loss():
        _with_records(model, net)
        return init_net, net
    gradients = net.AddGradientOperators(model.loss.field_blobs())
    model.apply_post_grad_net_modifiers(net, init_net, gradients, modify_output_record=True)
    model.apply_optimizers(net, init_net, gradients)
    model.apply_regularizers_after_optimizer(net, init_net, gradients)
    model.apply_final_net_modifiers(net, init_net, gradients, modify_output_record=True)
    _with_records(model, net)
    return init_net, net
