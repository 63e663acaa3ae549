"""What normalizes the output of a layer of a `LayerModelHelper`: by batches, or by itself."""

from __future__ import annotations

from typing import Any


class Normalizer:
    """Adds a layer behind a record, and gives what comes out of it; one's own defines `_run`."""

    def __init__(self) -> None:
        """Make one."""

    def __call__(self, net: Any, param: Any) -> Any:
        """Add the layer to a model, behind a record of it."""
        return self._run(net, param)

    def _run(self, net: Any, param: Any) -> Any:
        del net, param
        raise NotImplementedError(f"{type(self).__name__} has to define _run")


class BatchNormalizer(Normalizer):
    """Each channel over a batch has mean 0 and deviation 1; `momentum` is of the statistics that are kept."""

    def __init__(self, momentum: float, scale_init_value: float = 1.0) -> None:
        """Say how statistics are kept, and the scale to begin with."""
        super().__init__()
        self._momentum = float(momentum)
        self._scale_init_value = float(scale_init_value)

    def _run(self, layer_model: Any, param: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] -- the old names
        return layer_model.BatchNormalization(param, momentum=self._momentum, scale_init_value=self._scale_init_value)


class LayerNormalizer(Normalizer):
    """Each row has mean 0 and deviation 1; `epsilon` is added to its variance."""

    def __init__(self, epsilon: float, use_layer_norm_op: bool = True, scale_init_value: float = 1.0) -> None:
        """Say whether the operator LayerNorm does it or several do, and the scale to begin with."""
        super().__init__()
        self._epsilon = float(epsilon)
        self._use_layer_norm_op = use_layer_norm_op
        self._scale_init_value = float(scale_init_value)

    def _run(self, layer_model: Any, param: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] -- the old names
        return layer_model.LayerNormalization(
            param,
            epsilon=self._epsilon,
            use_layer_norm_op=self._use_layer_norm_op,
            scale_init_value=self._scale_init_value,
        )
