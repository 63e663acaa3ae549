"""Layers that may train on a sample of their parameters' rows."""

from __future__ import annotations

import abc
from typing import Any


class SamplingTrainableMixin(metaclass=abc.ABCMeta):
    """What layers inherit whose parameters `SamplingTrain` may replace while they train."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Begin with no other parameters for training."""
        super().__init__(*args, **kwargs)
        self._train_param_blobs: Any = None
        self._train_param_blobs_frozen = False

    @property
    @abc.abstractmethod
    def param_blobs(self) -> list[Any]:
        """The parameters of the net that predicts."""

    @property
    def train_param_blobs(self) -> list[Any]:
        """The parameters of the net that trains; once they were asked for they stay."""
        blobs: list[Any] = self.param_blobs if self._train_param_blobs is None else self._train_param_blobs
        if not self._train_param_blobs_frozen:
            self.train_param_blobs = blobs
        return blobs

    @train_param_blobs.setter
    def train_param_blobs(self, blobs: list[Any]) -> None:
        assert not self._train_param_blobs_frozen, "what this layer trains on is settled already"
        assert blobs is not None, "what this layer trains on is a list of blobs"
        self._train_param_blobs_frozen = True
        self._train_param_blobs = blobs

    @abc.abstractmethod
    def _add_ops(self, net: Any, param_blobs: list[Any]) -> None:
        """Add the operators, on these parameters."""

    def add_ops(self, net: Any) -> None:
        """Add what the layer does when the model predicts."""
        self._add_ops(net, self.param_blobs)

    def add_train_ops(self, net: Any) -> None:
        """Add what the layer does when the model trains."""
        self._add_ops(net, self.train_param_blobs)
