"""Images that grow and get borders. Boxes and regions have no like in PyTorch itself."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.operators.row import Draw, F, Row, family


@family()
def vision(draw: Draw) -> Iterator[Row]:
    """8 images of 32 channels, 56 by 56."""
    N, C, H = draw.extent(8, 2), draw.extent(32, 3), draw.extent(56, 5)
    x = draw.normal(N, C, H, H)
    twice = {"width_scale": 2.0, "height_scale": 2.0}
    yield Row("ResizeNearest", [x], lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"), twice, gradient=[0])
    yield Row("UpsampleNearest", [x], lambda x: F.interpolate(x, scale_factor=2.0), {"scale": 2}, gradient=[0])
    yield Row(
        "UpsampleBilinear",
        [x],
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True),
        twice,
        gradient=[0],
    )
    for mode in ("constant", "reflect", "edge"):
        theirs = "replicate" if mode == "edge" else mode
        yield Row(
            "PadImage",
            [x],
            lambda x, m=theirs: F.pad(x, (2, 2, 2, 2), m),
            {"pad": 2, "mode": mode},
            what=mode,
            gradient=[0],
        )
    video = draw.normal(2, draw.extent(16, 3), draw.extent(8, 3), draw.extent(28, 4), draw.extent(28, 4))
    yield Row(
        "ResizeNearest3D",
        [video],
        lambda x: F.interpolate(x, scale_factor=2.0),
        twice | {"temporal_scale": 2.0},
        gradient=[0],
    )
    yield Row("IntegralImage", [x], lambda x: F.pad(x.cumsum(2).cumsum(3), (1, 0, 1, 0)))
