"""Residual nets, operator by operator as old programs built them.

Source: He, Zhang, Ren, Sun: Deep residual learning for image recognition, CVPR 2016; Xie, Girshick, Dollár, Tu, He:
Aggregated residual transformations for deep neural networks, CVPR 2017 (ResNeXt).
"""

from __future__ import annotations

import logging
from typing import Any

from caffe2.python import brew

log = logging.getLogger(__name__)

RESNEXT_BLOCK_CONFIG: dict[int, tuple[int, ...]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}
"""Number of layers -> how many blocks each of the four stages has."""
RESNEXT_STRIDES = [1, 2, 2, 2]
"""Stride of the first block of each stage."""
FILLER: tuple[str, dict[str, Any]] = ("MSRAFill", {})


class ResNetBuilder:
    """Adds layers and blocks behind `prev_blob`; blocks are numbered, and the layers in each."""

    def __init__(
        self,
        model: Any,
        prev_blob: Any,
        no_bias: int,
        is_test: bool,
        bn_epsilon: float = 1e-5,
        bn_momentum: float = 0.9,
    ) -> None:
        """Begin behind a blob."""
        self.model = model
        self.comp_count = 0
        self.comp_idx = 0
        self.prev_blob = prev_blob
        self.is_test = is_test
        self.bn_epsilon = bn_epsilon
        self.bn_momentum = bn_momentum
        self.no_bias = 1 if no_bias else 0

    def add_conv(
        self, in_filters: int, out_filters: int, kernel: int, stride: int = 1, group: int = 1, pad: int = 0
    ) -> Any:
        """Add a convolution."""
        self.comp_idx += 1
        self.prev_blob = brew.conv(
            self.model,
            self.prev_blob,
            f"comp_{self.comp_count}_conv_{self.comp_idx}",
            in_filters,
            out_filters,
            weight_init=FILLER,
            kernel=kernel,
            stride=stride,
            group=group,
            pad=pad,
            no_bias=self.no_bias,
        )
        return self.prev_blob

    def add_relu(self) -> Any:
        """Rectify, in place."""
        self.prev_blob = brew.relu(self.model, self.prev_blob, self.prev_blob)
        return self.prev_blob

    def add_spatial_bn(self, num_filters: int) -> Any:
        """Normalize."""
        self.prev_blob = brew.spatial_bn(
            self.model,
            self.prev_blob,
            f"comp_{self.comp_count}_spatbn_{self.comp_idx}",
            num_filters,
            epsilon=self.bn_epsilon,
            momentum=self.bn_momentum,
            is_test=self.is_test,
        )
        return self.prev_blob

    def _joined(self, shortcut: Any) -> None:
        """Add what went round a block to what came out of it, and end the block."""
        name = f"comp_{self.comp_count}_sum_{self.comp_idx}"
        self.prev_blob = brew.sum(self.model, [shortcut, self.prev_blob], name)
        self.comp_idx += 1
        self.add_relu()
        self.comp_count += 1

    def _projected(self, shortcut: Any, in_filters: int, out_filters: int, stride: int, **normal: Any) -> Any:
        """Return what goes round a block, with as many channels as come out of it; normalized by `normal`, if given."""
        made = brew.conv(
            self.model,
            shortcut,
            f"shortcut_projection_{self.comp_count}",
            in_filters,
            out_filters,
            weight_init=FILLER,
            kernel=1,
            stride=stride,
            no_bias=self.no_bias,
        )
        if not normal:
            return made
        return brew.spatial_bn(self.model, made, made + "_spatbn", out_filters, **normal, is_test=self.is_test)

    def add_bottleneck(
        self,
        input_filters: int,
        base_filters: int,
        output_filters: int,
        stride: int = 1,
        group: int = 1,
        spatial_batch_norm: bool = True,
    ) -> None:
        """Add a block of three convolutions: to fewer channels, 3 x 3, and to more."""
        self.comp_idx = 0
        shortcut = self.prev_blob
        self.add_conv(input_filters, base_filters, kernel=1, stride=1)
        self._normalized(base_filters, spatial_batch_norm)
        self.add_relu()
        self.add_conv(base_filters, base_filters, kernel=3, stride=stride, group=group, pad=1)
        self._normalized(base_filters, spatial_batch_norm)
        self.add_relu()
        self.add_conv(base_filters, output_filters, kernel=1)
        self._normalized(output_filters, spatial_batch_norm)
        if output_filters != input_filters:
            normal = {"epsilon": self.bn_epsilon, "momentum": self.bn_momentum} if spatial_batch_norm else {}
            shortcut = self._projected(shortcut, input_filters, output_filters, stride, **normal)
        self._joined(shortcut)

    def _normalized(self, num_filters: int, wanted: bool) -> None:
        if wanted:
            self.add_spatial_bn(num_filters)

    def add_simple_block(
        self, input_filters: int, num_filters: int, down_sampling: bool = False, spatial_batch_norm: bool = True
    ) -> None:
        """Add a block of two convolutions, 3 x 3, the first of which may halve the image."""
        self.comp_idx = 0
        shortcut = self.prev_blob
        stride = 2 if down_sampling else 1
        self.add_conv(input_filters, num_filters, kernel=3, stride=stride, pad=1)
        self._normalized(num_filters, spatial_batch_norm)
        self.add_relu()
        self.add_conv(num_filters, num_filters, kernel=3, pad=1)
        self._normalized(num_filters, spatial_batch_norm)
        if num_filters != input_filters:
            normal = {"epsilon": 1e-3} if spatial_batch_norm else {}
            shortcut = self._projected(shortcut, input_filters, num_filters, stride, **normal)
        self._joined(shortcut)


def create_resnet_32x32(
    model: Any, data: Any, num_input_channels: int, num_groups: int, num_labels: int, is_test: bool = False
) -> Any:
    """Add a net for images of 32 x 32, of 12 * num_groups + 2 layers; returns the softmax."""
    brew.conv(model, data, "conv1", num_input_channels, 16, kernel=3, stride=1)
    brew.spatial_bn(model, "conv1", "conv1_spatbn", 16, epsilon=1e-3, is_test=is_test)
    brew.relu(model, "conv1_spatbn", "relu1")
    builder = ResNetBuilder(model, "relu1", no_bias=0, is_test=is_test)
    before = 16
    for stage, filters in enumerate((16, 32, 64)):
        for block in range(2 * num_groups):
            builder.add_simple_block(before, filters, down_sampling=block == 0 and stage > 0)
            before = filters
    brew.average_pool(model, builder.prev_blob, "final_avg", kernel=8, stride=1)
    brew.fc(model, "final_avg", "last_out", 64, num_labels)
    return brew.softmax(model, "last_out", "softmax")


def create_resnext(
    model: Any,
    data: Any,
    num_input_channels: int,
    num_labels: int,
    num_layers: int,
    num_groups: int,
    num_width_per_group: int,
    label: Any = None,
    is_test: bool = False,
    no_loss: bool = False,
    no_bias: int = 1,
    conv1_kernel: int = 7,
    conv1_stride: int = 2,
    final_avg_kernel: int = 7,
    log: Any = None,
    bn_epsilon: float = 1e-5,
    bn_momentum: float = 0.9,
) -> Any:
    """Add a ResNeXt, or with one group a ResNet; `bn_epsilon` and `bn_momentum` are those of its first layer alone.

    Returns the scores with `no_loss`, the softmax and the loss with a label, else the softmax.

    Raises:
        KeyError: `num_layers` is none of `RESNEXT_BLOCK_CONFIG`.
    """
    if num_layers not in RESNEXT_BLOCK_CONFIG:
        raise KeyError(f"{num_layers} layers are not among {[*RESNEXT_BLOCK_CONFIG]}")
    blocks = RESNEXT_BLOCK_CONFIG[num_layers]
    filters = [64, 64, 128, 256, 512] if num_layers in {18, 34} else [64, 256, 512, 1024, 2048]
    first: dict[str, Any] = {"kernel": conv1_kernel, "stride": conv1_stride, "pad": 3, "no_bias": no_bias}
    stem = brew.conv(model, data, "conv1", num_input_channels, filters[0], weight_init=FILLER, **first)
    _rectified_pool(model, stem, filters[0], epsilon=bn_epsilon, momentum=bn_momentum, is_test=is_test)
    builder = ResNetBuilder(model, "pool1", no_bias, is_test)
    inner = num_groups * num_width_per_group
    for stage, (count, stride) in enumerate(zip(blocks, RESNEXT_STRIDES, strict=True)):
        before = filters[stage]
        for block in range(count):
            stride_now = stride if block == 0 else 1
            builder.add_bottleneck(before, inner, filters[stage + 1], stride=stride_now, group=num_groups)
            before = filters[stage + 1]
        inner *= 2
    pooled = brew.average_pool(
        model, builder.prev_blob, "final_avg", kernel=final_avg_kernel, stride=1, global_pooling=True
    )
    scores = brew.fc(model, pooled, f"last_out_L{num_labels}", filters[-1], num_labels)
    return scores if no_loss else _softmax(model, scores, label)


def _rectified_pool(model: Any, stem: Any, filters: int, **normal: Any) -> None:
    """Normalize and rectify the first layer, and halve the image."""
    brew.spatial_bn(model, stem, "conv1_spatbn_relu", filters, **normal)
    brew.relu(model, "conv1_spatbn_relu", "conv1_spatbn_relu")
    brew.max_pool(model, "conv1_spatbn_relu", "pool1", kernel=3, stride=2, pad=1)


def _softmax(model: Any, scores: Any, label: Any) -> Any:
    """Return the softmax, with the loss where there is a label."""
    if label is None:
        return brew.softmax(model, scores, "softmax")
    return tuple(model.SoftmaxWithLoss([scores, label], ["softmax", "loss"]))


def create_resnet50(
    model: Any,
    data: Any,
    num_input_channels: int,
    num_labels: int,
    label: Any = None,
    is_test: bool = False,
    no_loss: bool = False,
    no_bias: int = 0,
    conv1_kernel: int = 7,
    conv1_stride: int = 2,
    final_avg_kernel: int = 7,
) -> Any:
    """Add a ResNet of 50 layers; returns what `create_resnext` does."""
    return create_resnext(
        model,
        data,
        num_input_channels,
        num_labels,
        num_layers=50,
        num_groups=1,
        num_width_per_group=64,
        label=label,
        is_test=is_test,
        no_loss=no_loss,
        no_bias=no_bias,
        conv1_kernel=conv1_kernel,
        conv1_stride=conv1_stride,
        final_avg_kernel=final_avg_kernel,
    )
