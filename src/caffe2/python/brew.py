"""Layers by name: `brew.conv(model, "data", "conv1", 1, 20, 5)`.

A helper gets what its model gives to all helpers (`order`, `use_cudnn` ...) and what an `arg_scope` gives to it, as far
as it takes them.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, ClassVar

from caffe2.python.helpers.algebra import (
    arg_min,
    batch_mat_mul,
    mat_mul,
    reduce_sum,
    sparse_lengths_sum_4bit_rowwise_sparse,
    sub,
    sum,
    transpose,
)
from caffe2.python.helpers.arg_scope import arg_scope, get_current_scope
from caffe2.python.helpers.array_helpers import concat, depth_concat
from caffe2.python.helpers.control_ops import cond, loop
from caffe2.python.helpers.conv import conv, conv_nd, conv_transpose, group_conv, group_conv_deprecated
from caffe2.python.helpers.db_input import db_input
from caffe2.python.helpers.dropout import dropout
from caffe2.python.helpers.elementwise_linear import elementwise_linear
from caffe2.python.helpers.fc import fc, fc_decomp, fc_prune, fc_sparse, packed_fc
from caffe2.python.helpers.nonlinearity import prelu, relu, tanh
from caffe2.python.helpers.normalization import (
    instance_norm,
    layer_norm,
    lrn,
    moments_with_running_stats,
    softmax,
    spatial_bn,
    spatial_gn,
)
from caffe2.python.helpers.pooling import average_pool, max_pool, max_pool_with_index
from caffe2.python.helpers.quantization import fused_8bit_rowwise_quantized_to_float
from caffe2.python.helpers.tools import image_input, video_input
from caffe2.python.helpers.train import accuracy, add_weight_decay, iter
from caffe2.python.model_helper import ModelHelper

HELPERS: tuple[Callable[..., Any], ...] = (
    accuracy, add_weight_decay, arg_min, arg_scope, average_pool, batch_mat_mul, concat, cond, conv, conv_nd,
    conv_transpose, db_input, depth_concat, dropout, elementwise_linear, fc, fc_decomp, fc_prune, fc_sparse,
    fused_8bit_rowwise_quantized_to_float, group_conv, group_conv_deprecated, image_input, instance_norm, iter,
    layer_norm, loop, lrn, mat_mul, max_pool, max_pool_with_index, moments_with_running_stats, packed_fc, prelu,
    reduce_sum, relu, softmax, sparse_lengths_sum_4bit_rowwise_sparse, spatial_bn, spatial_gn, sub, sum, tanh,
    transpose, video_input,
)  # fmt: skip


class HelperWrapper:
    """What stands for this module once it is imported: its attributes are helpers."""

    _registry: ClassVar[dict[str, Callable[..., Any]]] = {helper.__name__: helper for helper in HELPERS}

    def __init__(self, wrapped: ModuleType) -> None:
        """Stand for a module."""
        self.wrapped = wrapped
        self.__dict__.update({name: value for name, value in vars(wrapped).items() if name.startswith("__")})

    def __getattr__(self, helper_name: str) -> Callable[..., Any]:
        """Return a helper that gets what scopes give.

        Raises:
            AttributeError: nobody registered it.
        """
        if helper_name not in self._registry:
            raise AttributeError(f"Helper function {helper_name} not registered.")
        helper = self._registry[helper_name]
        return helper if helper is arg_scope else _scoped(helper_name, helper)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._registry})

    def Register(self, helper: Callable[..., Any]) -> None:
        """Lend a function under its name.

        Raises:
            AttributeError: there is one of that name.
        """
        name = helper.__name__
        if name in self._registry:
            raise AttributeError(f"Helper {name} already exists. Please change your helper name.")
        self._registry[name] = helper

    def has_helper(self, helper_or_helper_name: Any) -> bool:
        """Whether a function, or one of that name, is lent."""
        given = helper_or_helper_name
        return (given if isinstance(given, str) else given.__name__) in self._registry


def _scoped(name: str, helper: Callable[..., Any]) -> Callable[..., Any]:
    """Return a helper that gets what its model and `arg_scope` give."""

    @functools.wraps(helper, assigned=("__module__", "__name__", "__qualname__"))
    def call(*args: Any, **kwargs: Any) -> Any:
        first = kwargs["model"] if "model" in kwargs else args[0] if args else None
        if not isinstance(first, ModelHelper):
            raise RuntimeError(
                "The first input of helper function should be model. "
                "Or you can provide it in kwargs as model=<your_model>."
            )
        taken = inspect.signature(helper).parameters
        any_name = any(one.kind is one.VAR_KEYWORD for one in taken.values())
        given = {key: value for key, value in first.arg_scope.items() if any_name or key in taken}
        given.update(get_current_scope().get(name, {}))
        given.update(kwargs)
        return helper(*args, **given)

    del call.__wrapped__  # its signature is that of what stands here
    return call


sys.modules[__name__] = HelperWrapper(sys.modules[__name__])  # pyright: ignore[reportArgumentType]
