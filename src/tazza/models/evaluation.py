"""Testing a classifier: which labels of a database it finds, and which images it was least sure of, or surely wrong."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import BoundsError, NetError, ShapeError
from tazza.models.confusion import Confusion
from tazza.models.training import close_readers
from tazza.nets import NetBase
from tazza.observers.drawing import Guess
from tazza.operator import touches
from tazza.proto import NetDef
from tazza.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Outputs:
    """The blobs of a test net that are looked at: images (N, C, H, W), labels (N) and probabilities (N, classes).

    `blue_first` says that the channels of images are blue, green, red.
    """

    image: str = "data"
    label: str = "label"
    probability: str = "softmax"
    blue_first: bool = False


USUAL_OUTPUTS = Outputs()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Which of the labels were found, and the images that the net was least sure of, or wrong about.

    `least_sure` has the least sure first, `confidently_wrong` has wrong ones alone, the surest first.
    """

    confusion: Confusion
    least_sure: list[Guess] = field(default_factory=list[Guess])
    confidently_wrong: list[Guess] = field(default_factory=list[Guess])

    @property
    def count(self) -> int:
        """Records that were looked at."""
        return self.confusion.count

    @property
    def correct(self) -> int:
        """Records whose label was found."""
        return self.confusion.correct

    @property
    def accuracy(self) -> float:
        """Share of the labels that were found."""
        return self.correct / self.count


def evaluate(
    workspace: Workspace,
    init_net: NetDef,
    net: NetDef,
    *,
    parameters: list[str],
    count: int,
    keep: int = 0,
    outputs: Outputs = USUAL_OUTPUTS,
    names: Sequence[str] = (),
) -> Evaluation:
    """Run a test net until `count` records have gone through it; what a last batch has beyond them is not counted.

    Args:
        workspace: where the parameters are; nothing else of it is seen or changed.
        init_net: makes the reader, at the first record.
        net: reads images and labels, and computes probabilities.
        parameters: blobs of `workspace` that the net reads.
        count: records to look at, 1 or more.
        keep: how many of the images to give back, of the least sure and of the confidently wrong each.
        outputs: where the net leaves what is looked at.
        names: of the classes, in order; those beyond go by their numbers.

    Raises:
        NetError: the net writes one of the parameters, so that testing would change what is tested.
        ShapeError: labels and probabilities do not fit each other.
        BoundsError: a label is none of the classes that the net tells apart.
        TazzaError: the net cannot be made, or fails.
    """
    for op in net.op:
        written = sorted(set(parameters).intersection(touches(op).writes))
        if written:
            raise NetError(
                f"test net {net.name!r}: {op.type} writes the parameter {written[0]!r}",
                hint="tazza.graph.derivation.net_that_tests makes a net that tests out of one that trains",
            )
    inner = Workspace(root=workspace.root, parent=workspace, forwarded={name: name for name in parameters})
    inner.run_net_once(init_net)
    try:
        return _run(inner, inner.create_net(net), count, _Kept(keep), outputs, names)
    finally:
        inner.delete_net(net.name)
        close_readers(inner, inner.local_blobs())


class _Kept:
    """Images to give back: `count` that the net was least sure of, and as many that it was wrong about, yet sure."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._seen = 0
        self._least: list[tuple[float, int, Guess]] = []  # the position keeps guesses from being compared
        self._wrong: list[tuple[float, int, Guess]] = []

    def add(
        self, workspace: Workspace, outputs: Outputs, labels: NDArray[Any], predicted: NDArray[Any], sure: NDArray[Any]
    ) -> None:
        """Look at a batch; its images are fetched where any is kept at all."""
        if self._count:
            images = workspace.fetch(outputs.image)

            def guesses(rows: NDArray[Any]) -> list[Guess]:
                return [
                    Guess(
                        _picture(images[row], blue_first=outputs.blue_first),
                        int(labels[row]),
                        int(predicted[row]),
                        float(sure[row]),
                    )
                    for row in rows
                ]

            least = np.argsort(sure, kind="stable")[: self._count]
            (wrong,) = np.nonzero(predicted != labels)
            wrong = wrong[np.argsort(-sure[wrong], kind="stable")[: self._count]]
            self._least = self._merged(self._least, least, guesses(least), 1.0)
            self._wrong = self._merged(self._wrong, wrong, guesses(wrong), -1.0)
        self._seen += len(labels)

    def _merged(
        self, kept: list[tuple[float, int, Guess]], rows: NDArray[Any], guesses: list[Guess], sign: float
    ) -> list[tuple[float, int, Guess]]:
        found = [
            (sign * guess.probability, self._seen + int(row), guess) for row, guess in zip(rows, guesses, strict=True)
        ]
        return heapq.nsmallest(self._count, [*kept, *found])

    def evaluation(self, confusion: Confusion) -> Evaluation:
        """Return what was found."""
        return Evaluation(confusion, [guess for _, _, guess in self._least], [guess for _, _, guess in self._wrong])


def _run(
    workspace: Workspace, net: NetBase, count: int, kept: _Kept, outputs: Outputs, names: Sequence[str]
) -> Evaluation:
    pairs = Counter[tuple[int, int]]()
    done = classes = 0
    while done < count:
        net.run()
        probabilities, labels = _batch(workspace, outputs)
        rows = min(len(labels), count - done)
        probabilities, labels = probabilities[:rows], labels[:rows]
        classes = probabilities.shape[1]
        predicted = probabilities.argmax(1)
        pairs.update(zip(labels.tolist(), predicted.tolist(), strict=True))
        kept.add(workspace, outputs, labels, predicted, probabilities.max(1))
        done += rows
    return kept.evaluation(Confusion(classes, pairs, tuple(names)))


def _batch(workspace: Workspace, outputs: Outputs) -> tuple[NDArray[Any], NDArray[Any]]:
    probabilities, labels = workspace.fetch(outputs.probability), workspace.fetch(outputs.label)
    if probabilities.ndim != 2 or labels.size != len(probabilities) or labels.size == 0:
        raise ShapeError(
            f"probabilities {outputs.probability!r} of shape {probabilities.shape} and labels {outputs.label!r} of"
            f" shape {labels.shape} are not (N, classes) and (N), with N of 1 or more",
            hint="give the net a batch size",
        )
    labels = labels.reshape(-1).astype(np.int64)
    classes = probabilities.shape[1]
    strange = labels[(labels < 0) | (labels >= classes)]
    if strange.size:
        raise BoundsError(
            f"label {strange[0]} of blob {outputs.label!r} is none of the {classes} classes of {outputs.probability!r}",
            hint=f"labels are 0 ... {classes - 1}; give the last layer an output for each of them",
        )
    return probabilities, labels


def _picture(image: NDArray[Any], *, blue_first: bool) -> NDArray[Any]:
    """Return an image (C, H, W) as (H, W) or (H, W, C), red first.

    >>> _picture(np.array([[[1]], [[2]], [[3]]]), blue_first=True).tolist()
    [[[3, 2, 1]]]
    """
    if len(image) == 1:
        return image[0]
    channels_last = np.moveaxis(image, 0, -1)
    return channels_last[..., [2, 1, 0, *range(3, len(image))]] if blue_first else channels_last
