"""Regions at several scales: RMACRegions, which RoIPool then looks at.

For images of H x W elements, s the smaller of the two: at scale l = 1, 2 ... regions are squares with sides of
2 s / (l + 1) elements, l of them along the smaller extent and l + m along the larger, evenly from end to end. m is that
of 1 to 6 for which the overlap of two regions at scale 1 comes nearest to `overlap`; 0 where the images are squares.
Scales at which regions have no element have none.

Source: Tolias, Sicre, Jegou 2016, arXiv 1511.05879, section 3.2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Cost, Effects, OpView, Role, arg, blob, forbidden, kernel, schema
from tazza.tensor import DataType, TensorSpec

RMAC_REGIONS = schema(
    "RMACRegions",
    """rois = the regions of each image, (R, 5): number of the image, x1, y1, x2, y2, the last two within the region.

    One scale behind the other, each column by column.""",
    inputs=[blob("X", dims="N C H W *S", role=Role.SHAPE, doc="only its shape is used")],
    outputs=[blob("rois", DataType.FLOAT)],
    args=[
        arg("scales", int, 3, doc="how many there are"),
        arg("overlap", float, 0.4, doc="what two regions at scale 1 have in common, as a part of one"),
    ],
    effects=Effects.PURE,
    no_gradient=forbidden("it reads a shape"),
    source="Tolias, Sicre, Jegou 2016, arXiv 1511.05879",
    example="""
    >>> run("RMACRegions", np.zeros((1, 3, 4, 6), "f"), scales=1)
    array([[0., 0., 0., 3., 3.],
           [0., 2., 0., 5., 3.]], dtype=float32)
    """,
)


@RMAC_REGIONS.infer
def rmac_regions_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    known = [] if X.dims is None else [extent for extent in X.dims[:4] if extent is not None]
    if len(known) < 4:
        return TensorSpec((None, 5), DataType.FLOAT)
    N, C, *extents = known
    count = sum(across * down for _, across, down in _scales(op, extents))
    return TensorSpec((N * count if C else 0, 5), DataType.FLOAT)


@RMAC_REGIONS.cost
def rmac_regions_cost(op: OpView, X: TensorSpec, rois: TensorSpec) -> Cost:
    del op, X
    return Cost(rois.size, 0, rois.nbytes)


@kernel(RMAC_REGIONS)
def rmac_regions(op: OpView, X: Array, rois: Array) -> None:
    N, _, H, W = X.shape[:4]
    if not rois.size:
        return
    found: list[Array] = []
    for side, across, down in _scales(op, [H, W]):
        x, y = np.meshgrid(_starts(W, side, across), _starts(H, side, down), indexing="ij")
        found.append(np.stack([x, y, x + side - 1, y + side - 1], axis=-1).reshape(-1, 4))
    regions: Array = np.concatenate(found)
    rois[:, 0] = np.repeat(np.arange(float(N)), len(regions))
    rois[:, 1:] = np.tile(regions, (N, 1))


def _scales(op: OpView, extents: list[int]) -> list[tuple[int, int, int]]:
    """Return for each scale of images (H, W) the side of a region, and how many stand along W and along H."""
    least = min(extents)
    higher, wider = (_more(extent, least, op.overlap) for extent in extents)
    sides = (2 * least // (scale + 1) for scale in range(1, min(op.scales, 2 * least) + 1))
    return [(side, scale + wider, scale + higher) for scale, side in enumerate(sides, 1) if side > 0]


def _more(extent: int, least: int, overlap: float) -> int:
    """Return by how many more regions stand along an extent than along the smaller one."""
    if extent == least or least == 0:
        return 0
    steps = np.float32(extent - least) / np.arange(1, 7, dtype=np.float32)
    shared = (least * least - least * steps) / np.float32(least * least)
    return int(np.abs(shared - np.float32(overlap)).argmin()) + 1


def _starts(extent: int, side: int, count: int) -> Array:
    """Return where so many regions with that side begin."""
    step = np.float32(extent - side) / np.float32(max(1, count - 1))
    return np.floor(step * np.arange(count, dtype=np.float32))
