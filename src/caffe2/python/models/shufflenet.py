"""ShuffleNet V2: half of the channels goes through each block, then channels are mixed.

Source: Ma, Zhang, Zheng, Sun: ShuffleNet V2, ECCV 2018, table 5 and figure 3.
"""

from __future__ import annotations

from typing import Any

from caffe2.python import brew, core

OUTPUT_CHANNELS: dict[str, list[int]] = {
    "0.5x": [24, 48, 96, 192, 1024],
    "1.0x": [24, 116, 232, 464, 1024],
    "1.5x": [24, 176, 352, 704, 1024],
    "2.0x": [24, 244, 488, 976, 2048],
}
"""Width -> channels behind stages 1 to 5."""
FILLER: tuple[str, dict[str, Any]] = ("MSRAFill", {})


class ShuffleNetV2Builder:
    """Adds a net to a model; `prev_blob` is what came out of the last unit."""

    def __init__(
        self,
        model: Any,
        data: Any,
        num_input_channels: int,
        num_labels: int,
        num_groups: int = 2,
        width: str = "1.0x",
        is_test: bool = False,
        detection: bool = False,
        bn_epsilon: float = 1e-5,
    ) -> None:
        """Begin at images; for `detection`, units see further."""
        self.model = model
        self.prev_blob = data
        self.num_input_channels = num_input_channels
        self.num_labels = num_labels
        self.num_groups = num_groups
        self.output_channels = OUTPUT_CHANNELS[width]
        self.stage_repeats = [3, 7, 3]
        self.is_test = is_test
        self.detection = detection
        self.bn_epsilon = bn_epsilon

    def create(self) -> None:
        """Add all stages, and the scores, `last_out_L<num_labels>`."""
        channels = self.output_channels
        first = brew.conv(
            self.model,
            self.prev_blob,
            "stage1_conv",
            self.num_input_channels,
            channels[0],
            weight_init=FILLER,
            kernel=3,
            stride=2,
        )
        self.prev_blob = brew.max_pool(self.model, first, "stage1_pool", kernel=3, stride=2)
        for stage, repeats in enumerate(self.stage_repeats, 2):
            self.add_spatial_ds_unit(f"stage{stage}_stride2", channels[stage - 2], channels[stage - 1])
            for repeat in range(1, repeats + 1):
                self.add_basic_unit(f"stage{stage}_stride1_repeat{repeat}", channels[stage - 1])
        last = brew.conv(self.model, self.prev_blob, "conv5", channels[3], channels[4], kernel=1)
        pooled = self.model.AveragePool(last, "avg_pool", kernel=7)
        brew.fc(self.model, pooled, f"last_out_L{self.num_labels}", channels[4], self.num_labels)

    def add_spatial_ds_unit(self, prefix: str, in_channels: int, out_channels: int, stride: int = 2) -> None:
        """Add a unit that halves the image: both branches take all channels, and give half each."""
        half = out_channels // 2
        left = right = self.prev_blob
        if self.detection:
            left = self.add_detection_unit(left, f"{prefix}_left_detection", in_channels, in_channels)
        left = self.add_dwconv3x3_bn(left, f"{prefix}left_dwconv", in_channels, stride)
        left = self._rectified(self.add_conv1x1_bn(left, f"{prefix}_left_conv1", in_channels, half))
        if self.detection:
            right = self.add_detection_unit(right, f"{prefix}_right_detection", in_channels, in_channels)
        self._mixed(prefix, self._right(right, prefix, in_channels, half, stride), left)

    def add_basic_unit(self, prefix: str, in_channels: int, stride: int = 1) -> None:
        """Add a unit that takes half of the channels, and hands on the others."""
        half = in_channels // 2
        left, right = self.model.net.Split(self.prev_blob, [f"{prefix}_left", f"{prefix}_right"])
        if self.detection:
            right = self.add_detection_unit(right, f"{prefix}_right_detection", half, half)
        self._mixed(prefix, self._right(right, prefix, half, half, stride), left)

    def _right(self, blob: Any, prefix: str, in_channels: int, channels: int, stride: int) -> Any:
        """Add the branch with two convolutions of 1 x 1 and one of 3 x 3 between them."""
        blob = self._rectified(self.add_conv1x1_bn(blob, f"{prefix}_right_conv1", in_channels, channels))
        blob = self.add_dwconv3x3_bn(blob, f"{prefix}_right_dwconv", channels, stride)
        return self._rectified(self.add_conv1x1_bn(blob, f"{prefix}_right_conv2", channels, channels))

    def _mixed(self, prefix: str, right: Any, left: Any) -> None:
        joined = brew.concat(self.model, [right, left], f"{prefix}_concat")
        self.prev_blob = self.model.net.ChannelShuffle(joined, f"{prefix}_ch_shuffle", group=self.num_groups, kernel=1)

    def _rectified(self, blob: Any) -> Any:
        return brew.relu(self.model, blob, blob)

    def _normalized(self, blob: Any, name: str, channels: int) -> Any:
        return brew.spatial_bn(self.model, blob, name, channels, epsilon=self.bn_epsilon, is_test=self.is_test)

    def add_detection_unit(
        self, prev_blob: Any, prefix: str, in_channels: int, out_channels: int, kernel: int = 3, pad: int = 1
    ) -> Any:
        """Add a convolution of each channel by itself, which lets the unit see further."""
        blob = brew.conv(
            self.model,
            prev_blob,
            f"{prefix}_conv",
            in_channels,
            out_channels,
            weight_init=FILLER,
            kernel=kernel,
            group=in_channels,
            pad=pad,
        )
        return self._normalized(blob, f"{prefix}_bn", out_channels)

    def add_conv1x1_bn(self, prev_blob: Any, blob: str, in_channels: int, out_channels: int) -> Any:
        """Add a convolution of 1 x 1, normalized."""
        made = brew.conv(self.model, prev_blob, blob, in_channels, out_channels, weight_init=FILLER, kernel=1)
        return self._normalized(made, made + "_bn", out_channels)

    def add_dwconv3x3_bn(self, prev_blob: Any, blob: str, channels: int, stride: int) -> Any:
        """Add a convolution of 3 x 3 of each channel by itself, normalized."""
        made = brew.conv(
            self.model,
            prev_blob,
            blob,
            channels,
            channels,
            weight_init=FILLER,
            kernel=3,
            stride=stride,
            group=channels,
            pad=1,
        )
        return self._normalized(made, made + "_bn", channels)


def create_shufflenet(
    model: Any,
    data: Any,
    num_input_channels: int,
    num_labels: int,
    label: Any = None,
    is_test: bool = False,
    no_loss: bool = False,
) -> Any:
    """Add a ShuffleNet V2 of width 1 for images of 224 x 224.

    Returns the scores with `no_loss`, the softmax and the loss with a label, else nothing.
    """
    builder = ShuffleNetV2Builder(model, data, num_input_channels, num_labels, is_test=is_test)
    builder.create()
    scores = core.ScopedBlobReference(f"last_out_L{num_labels}", model.net)
    if no_loss:
        return scores
    return None if label is None else tuple(model.SoftmaxWithLoss([scores, label], ["softmax", "loss"]))
