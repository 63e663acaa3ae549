"""Proposals of a feature pyramid: CollectRpnProposals, DistributeFpnProposals, and both as one operator.

Each level of the pyramid has proposals of its own, `rois` (n, 5), rows as GenerateProposals gives them, with their
scores `probs` (n). The `rpn_post_nms_topN` best of all levels are collected, of equal ones those of the lower level,
then of the earlier row. Each of these R boxes is looked at in the level of its size: with the area a that is

    level = floor(roi_canonical_level + log2(sqrt(a) / roi_canonical_scale + 1e-6))

within roi_min_level and roi_max_level. `restore` brings rows of all levels, one level behind the other, back into the
order of `rois`.

Source: Lin and others 2017, arXiv 1612.03144, section 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    FLOAT,
    Array,
    BlobSpec,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    as_many,
    blob,
    family,
    forbidden,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.operator.by_letter import by_letter
from tazza.ops.shape.axis import agree
from tazza.ops.vision.box import PLUS_ONE, Upright
from tazza.tensor import DataType, TensorSpec

COLLECTED = (
    blob("rois", FLOAT, variadic=True, doc="(n, 5) of each level: number of the image, x1, y1, x2, y2"),
    blob("probs", FLOAT, variadic=True, role=Role.DATA, doc="(n) of each level, or (n, 1)"),
)
COLLECT_ARGS = (
    arg("rpn_min_level", int, 2, doc="first level that is collected"),
    arg("rpn_max_level", int, 6, doc="last level that is collected"),
    arg("rpn_post_nms_topN", int, 2000, doc="boxes that are given; 0 and less: all"),
)
DISTRIBUTED = (
    blob("levels", FLOAT, variadic=True, dynamic=True, doc="rows of each level, (k, 5), in their order"),
    blob("restore", DataType.INT32, doc="(R)"),
)
DISTRIBUTE_ARGS = (
    arg("roi_min_level", int, 2, doc="first level that boxes go to"),
    arg("roi_max_level", int, 5, doc="last level that boxes go to"),
    arg("roi_canonical_scale", int, 224, minimum=1, doc="pixels along a side of a box of the canonical level"),
    arg("roi_canonical_level", int, 4, doc="where boxes of that size go to"),
    PLUS_ONE,
)


@dataclass(frozen=True, slots=True)
class Steps:
    """What an operator does with proposals: `collects` those of all levels, `distributes` them to levels again."""

    doc: str
    example: str
    collects: bool = True
    distributes: bool = True

    @property
    def inputs(self) -> tuple[BlobSpec, ...]:
        """The boxes, with scores where they are collected."""
        one = blob("rois", FLOAT, doc="(R, 5): number of the image, x1, y1, x2, y2; or (R, 4), in image 0")
        return COLLECTED if self.collects else (one,)

    @property
    def outputs(self) -> tuple[BlobSpec, ...]:
        """The boxes that were collected, and those of each level."""
        best = (blob("best", FLOAT, doc="(R, 5)"),) if self.collects else ()
        return (*best, *DISTRIBUTED) if self.distributes else best


@family(
    {
        "CollectRpnProposals": Steps(
            "best = the rois with the best probs, the best first.",
            """
            >>> low, high = [[0.0, 2.0, 2.0, 9.0, 9.0]], [[0.0, 1.0, 1.0, 7.0, 7.0], [0.0, 3.0, 3.0, 8.0, 8.0]]
            >>> run("CollectRpnProposals", low, high, [0.5], [0.75, 0.25], rpn_max_level=3, rpn_post_nms_topN=2)
            array([[0., 1., 1., 7., 7.],
                   [0., 2., 2., 9., 9.]], dtype=float32)
            """,
            distributes=False,
        ),
        "DistributeFpnProposals": Steps(
            "levels = the rois of each level; restore = the row of each of rois in all levels together.",
            """
            >>> rois = [[0.0, 0.0, 0.0, 223.0, 223.0], [0.0, 2.0, 2.0, 9.0, 9.0]]
            >>> low, high, restore = run("DistributeFpnProposals", rois, roi_min_level=3, roi_max_level=4, outputs=3)
            >>> low[:, 3], high[:, 3], restore
            (array([9.], dtype=float32), array([223.], dtype=float32), array([1, 0], dtype=int32))
            """,
            collects=False,
        ),
        "CollectAndDistributeFpnRpnProposals": Steps(
            "best = the rois with the best probs, the best first; levels and restore: where each of best is looked at.",
            """
            >>> rois, probs = [[0.0, 0.0, 0.0, 223.0, 223.0], [0.0, 2.0, 2.0, 9.0, 9.0]], [0.5, 0.75]
            >>> levels = {"rpn_min_level": 2, "rpn_max_level": 2, "roi_min_level": 3, "roi_max_level": 4}
            >>> best, *_, restore = run("CollectAndDistributeFpnRpnProposals", rois, probs, outputs=4, **levels)
            >>> best[:, 3].tolist(), restore.tolist()
            ([9.0, 223.0], [0, 1])
            """,
        ),
    }
)
def pyramid_proposals(type: str, row: Steps) -> OpSchema:
    """What a feature pyramid does with proposals."""
    made = schema(
        type,
        row.doc,
        inputs=row.inputs,
        outputs=row.outputs,
        args=(COLLECT_ARGS if row.collects else ()) + (DISTRIBUTE_ARGS if row.distributes else ()),
        effects=Effects.PURE,
        relations=[as_many("probs", "rois")] if row.collects else [],
        no_gradient=forbidden("where a box is looked at is no smooth function"),
        source="Lin and others 2017, arXiv 1612.03144",
        example=row.example,
    )

    @made.validate
    def validate(op: OpView) -> None:
        sides = [("rpn", "rois", op.input_letters)] if row.collects else []
        sides += [("roi", "levels", op.output_letters)] if row.distributes else []
        for side, letter, letters in sides:
            first, last = op.arguments[f"{side}_min_level"], op.arguments[f"{side}_max_level"]
            if letters.count(letter) != last - first + 1:
                message = f"{letters.count(letter)} {letter} for the levels {first} to {last}"
                raise op.error(ArgumentError, message, f"one for each from {side}_min_level to {side}_max_level")

    @made.infer
    def infer(op: OpView, rois: Any, **others: Any) -> tuple[TensorSpec, ...]:
        R = _collected_rows(op, rois, others["probs"]) if row.collects else _rows(op, "rois", rois, (5, 4))
        specs = {"best": TensorSpec((R, 5), DataType.FLOAT), "levels": TensorSpec((None, 5), DataType.FLOAT)}
        specs["restore"] = TensorSpec((R,), DataType.INT32)
        return tuple(specs[letter] for letter in op.output_letters)

    @made.cost
    def cost(op: OpView, **blobs: Any) -> Cost:
        del op
        rois = blobs["rois"] if row.collects else (blobs["rois"],)
        size = sum(spec.size for spec in rois)
        return streamed(rois, rois if row.distributes else (), flops=4 * size)

    def compute(op: OpView, blobs: Mapping[str, Any]) -> None:
        rois = blobs["rois"]
        if row.collects:
            blobs["best"][...] = rois = _best(rois, blobs["probs"], len(blobs["best"]))
        if row.distributes:
            _distribute(op, rois, blobs)

    kernel(made)(by_letter(made, compute))
    return made


def _rows(op: OpView, name: str, spec: TensorSpec, columns: tuple[int, ...]) -> int | None:
    """Return how many rows boxes have, None where that is unknown.

    Raises:
        ShapeError: they have another number of columns.
    """
    if spec.dims is None:
        return None
    wanted = " or ".join(f"(R, {count})" for count in columns)
    fits = len(spec.dims) == 2 and spec.dims[1] in (None, *columns)
    op.require(fits, f"{name} have the shape {show_dims(spec.dims)}, they must be {wanted}")
    return spec.dims[0]


def _collected_rows(op: OpView, rois: tuple[TensorSpec, ...], probs: tuple[TensorSpec, ...]) -> int | None:
    """Return how many boxes are collected, None where that is unknown."""
    counts = [_rows(op, f"rois{i}", spec, (5,)) for i, spec in enumerate(rois)]
    for i, (count, spec) in enumerate(zip(counts, probs, strict=True)):
        if spec.dims is not None:
            fits = spec.dims[:1] == (None,) or (len(spec.dims) > 0 and agree(spec.dims[0], count))
            fits = fits and all(agree(extent, 1) for extent in spec.dims[1:])
            op.require(fits, f"probs{i} have the shape {show_dims(spec.dims)}, there are {count} rois{i}")
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None
    return min(sum(known), op.rpn_post_nms_topN) if op.rpn_post_nms_topN > 0 else sum(known)


def _best(rois: tuple[Array, ...], probs: tuple[Array, ...], most: int) -> Array:
    """Return the rows with the best scores, at most so many."""
    scores = np.concatenate([one.reshape(-1) for one in probs])
    return np.concatenate(rois)[np.argsort(-scores, kind="stable")[:most]]


def _distribute(op: OpView, rois: Array, blobs: Mapping[str, Any]) -> None:
    """Write the rows of each level, and how they come back."""
    level = _levels(op, rois[:, -4:])
    order = np.argsort(level, kind="stable")
    blobs["restore"][order] = np.arange(len(order))
    for number, output in enumerate(blobs["levels"], op.roi_min_level):
        own = rois[level == number]
        found = output.allocate((len(own), 5))
        found[:, 0], found[:, -own.shape[1] :] = 0, own


def _levels(op: OpView, boxes: Array) -> Array:
    """Return the level of each box.

    Raises:
        NumericError: one has no area.
    """
    sizes = Upright(np.float32(1 if op.legacy_plus_one else 0)).centered(boxes)[1]
    areas = sizes.prod(axis=1)
    if not (areas >= 0).all():
        r = int((~(areas >= 0)).argmax())
        raise op.error(NumericError, f"rois[{r}] is {sizes[r, 0]} by {sizes[r, 1]} pixels", "x2 and y2 come last")
    scale = np.sqrt(areas) / np.float32(op.roi_canonical_scale) + np.float32(1e-6)
    level = np.floor(np.float32(op.roi_canonical_level) + np.log2(scale))
    return np.clip(level, op.roi_min_level, op.roi_max_level).astype(np.int64)
