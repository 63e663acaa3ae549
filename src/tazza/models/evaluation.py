"""Testing a classifier: how many labels of a database it finds, and which images it was least sure of."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import NetError, ShapeError
from tazza.models.training import close_readers
from tazza.nets import NetBase
from tazza.observers.drawing import Guess
from tazza.operator import touches
from tazza.proto import NetDef
from tazza.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Outputs:
    """The blobs of a test net that are looked at: images (N, C, H, W), labels (N) and probabilities (N, classes)."""

    image: str = "data"
    label: str = "label"
    probability: str = "softmax"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How many of `count` labels were found, and the images that the net was least sure of, least sure first."""

    count: int
    correct: int
    least_sure: list[Guess] = field(default_factory=list[Guess])

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
    outputs: Outputs = Outputs(),
) -> Evaluation:
    """Run a test net until `count` records have gone through it; what a last batch has beyond them is not counted.

    Args:
        workspace: where the parameters are; nothing else of it is seen or changed.
        init_net: makes the reader, at the first record.
        net: reads images and labels, and computes probabilities.
        parameters: blobs of `workspace` that the net reads.
        count: records to look at, 1 or more.
        keep: how many of the images to give back.
        outputs: where the net leaves what is looked at.

    Raises:
        NetError: the net writes one of the parameters, so that testing would change what is tested.
        ShapeError: labels and probabilities do not fit each other.
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
        return _run(inner, inner.create_net(net), count, keep, outputs)
    finally:
        inner.delete_net(net.name)
        close_readers(inner, inner.local_blobs())


def _run(workspace: Workspace, net: NetBase, count: int, keep: int, outputs: Outputs) -> Evaluation:
    done = correct = 0
    least: list[tuple[float, int, Guess]] = []  # the position keeps guesses themselves from being compared
    while done < count:
        net.run()
        probabilities, labels = _batch(workspace, outputs)
        rows = min(len(labels), count - done)
        predicted = probabilities[:rows].argmax(1)
        correct += int((predicted == labels[:rows]).sum())
        sure = probabilities[:rows].max(1)
        if keep:
            images = workspace.fetch(outputs.image)
            for row in np.argsort(sure, kind="stable")[:keep]:
                guess = Guess(_picture(images[row]), int(labels[row]), int(predicted[row]), float(sure[row]))
                least.append((guess.probability, done + int(row), guess))
            least = heapq.nsmallest(keep, least)
        done += rows
    return Evaluation(count, correct, [guess for _, _, guess in least])


def _batch(workspace: Workspace, outputs: Outputs) -> tuple[NDArray[Any], NDArray[Any]]:
    probabilities, labels = workspace.fetch(outputs.probability), workspace.fetch(outputs.label)
    if probabilities.ndim != 2 or labels.size != len(probabilities) or labels.size == 0:
        raise ShapeError(
            f"probabilities {outputs.probability!r} of shape {probabilities.shape} and labels {outputs.label!r} of"
            f" shape {labels.shape} are not (N, classes) and (N), with N of 1 or more",
            hint="give the net a batch size",
        )
    return probabilities, labels.reshape(-1)


def _picture(image: NDArray[Any]) -> NDArray[Any]:
    """Return an image (C, H, W) as (H, W) or (H, W, 3)."""
    return image[0] if len(image) == 1 else np.moveaxis(image, 0, -1)
