"""Layers of nets: rectifiers and their like, normalization, convolution, pooling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.operators.row import FAST, Draw, F, Peer, Row, family, torch

ACTIVATIONS: dict[str, Peer] = {
    "Relu": lambda x: torch.relu(x),
    "Elu": lambda x: F.elu(x),
    "Selu": lambda x: F.selu(x),
    "ReluN": lambda x: F.relu6(x),
    "Sigmoid": lambda x: torch.sigmoid(x),
    "Swish": lambda x: F.silu(x),
    "Tanh": lambda x: torch.tanh(x),
    "Softplus": lambda x: F.softplus(x),
    "Softsign": lambda x: F.softsign(x),
    "Gelu": lambda x: F.gelu(x),
    "Mish": lambda x: F.mish(x),
}


@family(FAST)
def activations(draw: Draw) -> Iterator[Row]:
    """One million elements."""
    x = draw.normal(draw.many)
    for type, peer in ACTIVATIONS.items():
        yield Row(type, [x], peer, gradient=[0])
    yield Row("LeakyRelu", [x], lambda x: F.leaky_relu(x, 0.1), {"alpha": 0.1}, gradient=[0])
    yield Row("ThresholdedRelu", [x], lambda x: F.threshold(x, 0.5, 0.0), {"alpha": 0.5}, gradient=[0])
    sixth = {"alpha": 1 / 6, "beta": 0.5}
    yield Row("HardSigmoid", [x], lambda x: F.hardsigmoid(x), sixth, gradient=[0])
    N, C, H = draw.extent(8, 2), draw.extent(40, 3), draw.extent(56, 5)
    image = draw.normal(N, C, H, H)
    yield Row("PRelu", [image, draw.normal(C)], lambda x, w: F.prelu(x, w), gradient=[0, 1])
    M, K = draw.square
    yield Row("Glu", [draw.normal(M, 2 * K)], lambda x: F.glu(x))
    yield Row("Softmax", [draw.normal(M, K)], lambda x: torch.softmax(x, 1), gradient=[0])
    few = draw.normal(draw.extent(100_000, 70), 10)
    yield Row("Softmax", [few], lambda x: torch.softmax(x, 1), what="10 classes", gradient=[0])
    yield Row("Dropout", [x], lambda x: F.dropout(x, 0.3), {"ratio": 0.3, "is_test": 0}, outputs=2, random=True)


@family(FAST)
def normalization(draw: Draw) -> Iterator[Row]:
    """Images, and rows of transformers."""
    N, C, H = draw.extent(8, 2), draw.extent(64, 8), draw.extent(56, 5)
    x, scale, bias = draw.normal(N, C, H, H), draw.between(0.5, 1.5, C), draw.normal(C)
    mean, var = draw.normal(C), draw.between(0.5, 1.5, C)
    yield Row(
        "SpatialBN",
        [x, scale, bias, mean, var],
        lambda x, s, b, m, v: F.batch_norm(x, m, v, s, b, False),
        {"is_test": 1},
        what="test",
    )
    yield Row(
        "SpatialBN",
        [x, scale, bias, mean, var],
        lambda x, s, b, m, v: F.batch_norm(x, m, v, s, b, True, 0.1),
        {"is_test": 0},
        outputs=5,
        place={1: 3, 2: 4},
        gradient=[0, 1, 2],
        what="training",
    )
    yield Row(
        "GroupNorm",
        [x, scale, bias],
        lambda x, s, b: F.group_norm(x, 8, s, b),
        {"group": 8, "is_test": 0},
        outputs=3,
        gradient=[0, 1, 2],
    )
    yield Row(
        "InstanceNorm",
        [x, scale, bias],
        lambda x, s, b: F.instance_norm(x, None, None, s, b),
        outputs=3,
        gradient=[0, 1, 2],
        close=1e-3,
    )
    yield Row(
        "AffineChannel",
        [x, scale, bias],
        lambda x, s, b: torch.addcmul(b[:, None, None], x, s[:, None, None]),
        {"is_learnable": 1},
        gradient=[0, 1, 2],
    )
    lrn = {"size": 5, "alpha": 1e-4, "beta": 0.75}
    yield Row("LRN", [x], lambda x: F.local_response_norm(x, 5, 1e-4, 0.75), lrn, outputs=2, gradient=[0])
    yield Row("BatchMoments", [x], lambda x: (x.mean((0, 2, 3)), x.square().mean((0, 2, 3))), outputs=2)
    yield Row("ChannelStats", [x], lambda x: (x.sum((0, 2, 3)), x.square().sum((0, 2, 3))), outputs=2)
    yield from _rows(draw)


def _rows(draw: Draw) -> Iterator[Row]:
    M, K = draw.extent(2048, 30), draw.extent(768, 21)
    x, scale, bias = draw.normal(M, K), draw.between(0.5, 1.5, K), draw.normal(K)
    yield Row(
        "LayerNorm",
        [x, scale, bias],
        lambda x, s, b: F.layer_norm(x, x.shape[1:], s, b),
        {"elementwise_affine": 1},
        outputs=3,
        gradient=[0, 1, 2],
    )
    yield Row(
        "RMSNorm",
        [x, scale, bias],
        lambda x, s, b: F.rms_norm(x, x.shape[1:], s, 1e-5) + b,
        {"eps": 1e-5},
        outputs=2,
        gradient=[0, 1, 2],
    )
    yield Row("Normalize", [x], lambda x: F.normalize(x), gradient=[0])
    yield Row("NormalizeL1", [x], lambda x: F.normalize(x, 1.0))
    yield Row("ElementwiseLinear", [x, scale, bias], lambda x, w, b: torch.addcmul(b, x, w), gradient=[0, 1, 2])


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution of C channels of H x H to M, by a window of k x k."""

    what: str
    C: int
    M: int
    H: int
    k: int
    stride: int = 1
    pad: int = 0
    group: int = 1

    def tiny(self) -> Layer:
        """Return one with few channels for many, whose groups stay groups."""
        few = (3, 5, 1) if self.group == 1 else (6, 6, 6) if self.group == self.C else (4, 6, 2)
        return replace(self, C=few[0], M=few[1], group=few[2], H=9)


LAYERS = (
    Layer("3x3", 64, 64, 56, 3, pad=1),
    Layer("1x1", 64, 256, 56, 1),
    Layer("3x3, stride 2", 128, 128, 28, 3, stride=2, pad=1),
    Layer("7x7, stride 2", 3, 64, 224, 7, stride=2, pad=3),
    Layer("3x3, 14x14", 256, 256, 14, 3, pad=1),
    Layer("depthwise", 144, 144, 56, 3, pad=1, group=144),
    Layer("32 groups", 128, 128, 28, 3, pad=1, group=32),
    Layer("5x5", 32, 48, 28, 5, pad=2),
)


@family(FAST)
def convolution(draw: Draw) -> Iterator[Row]:
    """Layers of residual nets and mobile nets, batch 8; a column of sound; a video."""
    N = draw.extent(8, 2)
    for one in LAYERS:
        layer = one.tiny() if draw.tiny else one
        stride, pad, group, k = layer.stride, layer.pad, layer.group, layer.k
        x = draw.normal(N, layer.C, layer.H, layer.H)
        yield Row(
            "Conv",
            [x, draw.normal(layer.M, layer.C // group, k, k), draw.normal(layer.M)],
            lambda x, w, b, s=stride, p=pad, g=group: F.conv2d(x, w, b, s, p, 1, g),
            {"kernel": k, "stride": stride, "pad": pad, "group": group},
            what=layer.what,
            gradient=[0, 1, 2],
        )
    yield from _other_dimensions(draw)
    yield from _image_columns(draw)


def _other_dimensions(draw: Draw) -> Iterator[Row]:
    N, K, L = draw.extent(8, 2), draw.extent(64, 5), draw.extent(1000, 31)
    sound = [draw.normal(N, K, L), draw.normal(K, K, 5), draw.normal(K)]
    one = {"kernels": [5], "strides": [1], "pads": [2, 2]}
    yield Row("Conv", sound, lambda x, w, b: F.conv1d(x, w, b, 1, 2), one, what="1D", gradient=[0, 1, 2])
    C, T, H = draw.extent(16, 3), draw.extent(8, 4), draw.extent(28, 5)
    video = [draw.normal(2, C, T, H, H), draw.normal(2 * C, C, 3, 3, 3), draw.normal(2 * C)]
    three = {"kernels": [3, 3, 3], "pads": [1] * 6}
    yield Row("Conv", video, lambda x, w, b: F.conv3d(x, w, b, 1, 1), three, what="3D", gradient=[0, 1, 2])


def _image_columns(draw: Draw) -> Iterator[Row]:
    N, C, H = draw.extent(8, 2), draw.extent(64, 4), draw.extent(28, 5)
    x = draw.normal(N, C, H, H)
    yield Row(
        "ConvTranspose",
        [x, draw.normal(C, C // 2, 4, 4), draw.normal(C // 2)],
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1),
        {"kernel": 4, "stride": 2, "pad": 1},
        gradient=[0, 1, 2],
    )
    window = {"kernel": 3, "pad": 1, "stride": 1}
    yield Row("Im2Col", [x], lambda x: F.unfold(x, 3, padding=1), window)
    columns = draw.normal(N, 9 * C, H, H)
    yield Row("Col2Im", [columns, x], lambda y, x: F.fold(y.flatten(2), x.shape[2:], 3, padding=1), window)
    yield Row("ChannelShuffle", [x], lambda x: F.channel_shuffle(x, 4), {"group": 4}, gradient=[0])


@family(FAST)
def pooling(draw: Draw) -> Iterator[Row]:
    """Windows over images, of residual nets; a column of sound; a video."""
    N, C, H = draw.extent(8, 2), draw.extent(64, 3), draw.extent(112, 9)
    x = draw.normal(N, C, H, H)
    three = {"kernel": 3, "stride": 2, "pad": 1}
    yield Row("MaxPool", [x], lambda x: F.max_pool2d(x, 3, 2, 1), three, gradient=[0])
    yield Row("AveragePool", [x], lambda x: F.avg_pool2d(x, 3, 2, 1, False, False), three, gradient=[0])
    two = {"kernel": 2, "stride": 2}
    even = draw.normal(N, C, draw.extent(112, 8), draw.extent(112, 8))
    yield Row("MaxPool", [even], lambda x: F.max_pool2d(x, 2), two, what="2x2", gradient=[0])
    yield Row("AveragePool", [even], lambda x: F.avg_pool2d(x, 2), two, what="2x2", gradient=[0])
    everywhere = {"global_pooling": 1}
    last = draw.normal(N, draw.extent(2048, 5), 7, 7)
    yield Row("AveragePool", [last], lambda x: F.adaptive_avg_pool2d(x, 1), everywhere, what="global", gradient=[0])
    yield Row("MaxPool", [last], lambda x: F.adaptive_max_pool2d(x, 1), everywhere, what="global", gradient=[0])
    yield Row("LpPool", [even.clip(0.1)], lambda x: F.lp_pool2d(x, 2.0, 2), two, gradient=[0])
    yield Row("MaxPoolWithIndex", [even], lambda x: F.max_pool2d(x, 2), two, outputs=2, gradient=[0])
    sound = draw.normal(N, C, draw.extent(4000, 32))
    one = {"kernels": [2], "strides": [2]}
    yield Row("MaxPool", [sound], lambda x: F.max_pool1d(x, 2), one, what="1D", gradient=[0])
    yield Row("AveragePool", [sound], lambda x: F.avg_pool1d(x, 2), one, what="1D", gradient=[0])
    video = draw.normal(2, draw.extent(32, 3), draw.extent(16, 4), draw.extent(56, 6), draw.extent(56, 6))
    cube = {"kernels": [2, 2, 2], "strides": [2, 2, 2]}
    yield Row("MaxPool", [video], lambda x: F.max_pool3d(x, 2), cube, what="3D", gradient=[0])
    yield Row("AveragePool", [video], lambda x: F.avg_pool3d(x, 2), cube, what="3D", gradient=[0])
