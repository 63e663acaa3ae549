"""Who is told how a training goes: base of what writes its figures, draws them, or ends it."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.models.evaluation import Evaluation
from tazza.models.training import Trainer, TrainingStep
from tazza.runtime.closing import Closing


class TrainingListener(Closing):
    """A listener that does nothing; a subclass overrides what it wants to hear.

    All is told in the thread that trains, between two steps; the blobs of `trainer.workspace` can be read there.
    """

    def began(self, trainer: Trainer) -> None:
        """Hear that the first step is next: `trainer.iteration` is above 0 where a training goes on."""

    def stepped(self, trainer: Trainer, step: TrainingStep) -> None:
        """Hear what a step gave."""

    def tested(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
        """Hear what a test between steps gave, the most telling figure first."""

    def finished(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        """Hear that the training ended, and what its last test gave; None where it classifies nothing."""

    def close(self) -> None:
        """Let go of files; closing twice is allowed."""
