"""What is known of a parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


class ParameterTags:
    """What a parameter is for."""

    BIAS = "BIAS"
    WEIGHT = "WEIGHT"
    COMPUTED_PARAM = "COMPUTED_PARAM"


class ParameterInfo:
    """A parameter: its blob, shape, gradient, copies of other precision, and its own optimizer, if it has one."""

    def __init__(
        self,
        param_id: int | None,
        param: Any,
        key: Any = None,
        shape: Sequence[int] | None = None,
        length: int | None = None,
        grad: Any = None,
        blob_copy: dict[Any, Any] | None = None,
    ) -> None:
        """Note what is known; `length` is how many of the inputs it is for, at least one."""
        self.grad = grad
        self.param_id = param_id
        self.name = str(param)
        self.blob = param
        self.key = key
        self.shape = shape
        self.size = None if shape is None else np.prod(shape)
        self.length = max(1, 1 if length is None else length)
        self._cloned_init_net = None
        self.blob_copy = blob_copy
        self._optimizer: Any = None

    @property
    def parameter(self) -> Any:
        """The blob."""
        return self.blob

    @property
    def optimizer(self) -> Any:
        """What updates it, None if nothing of its own does."""
        return self._optimizer

    @optimizer.setter
    def optimizer(self, value: Any) -> None:
        assert self._optimizer is None, "optimizer has already been set"
        self._optimizer = value

    def __str__(self) -> str:
        return self.name
