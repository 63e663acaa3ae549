"""What is to be done with every image: the model, how pictures become numbers, what is kept. Workers get it as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Literal, Self

from tazza.data_class import dataclass
from tazza.images.preprocessing import Preprocessing
from tazza.interop.predictor import Predictor, load

Form = Literal["classes", "tensors"]
"""What is kept of an image: its best classes, or the whole output."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker needs to know beside the parts.

    Args:
        model: files as `tazza.load` takes them: an init net and a predict net, or one file.
        prepare: what is done to images.
        inputs: of the net; none: those that the files tell.
        output: the one that is taken; None: the first.
        device: "cpu", or None: where the net was saved for.
        trust: whether nets may do more than compute.
        labels: of classes.
        top: classes that are kept.
        batch_size: images of a run.
        form: what is kept.
        db_type: kind of the database that images come from; None: they are files.
        db: the database.
        run: what tells the run from others, a digest that stands in each of its parts.
    """

    model: tuple[str, ...]
    prepare: Preprocessing
    inputs: tuple[str, ...] = ()
    output: str | None = None
    device: str | None = None
    trust: bool = False
    labels: tuple[str, ...] | None = None
    top: int = 3
    batch_size: int = 16
    form: Form = "classes"
    db_type: str | None = None
    db: str | None = None
    run: str = ""

    def load(self) -> Predictor:
        """Return what runs the model.

        Raises:
            TazzaError: as `tazza.load`.
        """
        outputs = None if self.output is None else [self.output]
        said = self.inputs if self.inputs else None
        return load(*self.model, inputs=said, outputs=outputs, device=self.device, trust=self.trust)

    def to_dict(self) -> dict[str, Any]:
        """Return its fields, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """Return what `to_dict` gave, after JSON."""
        made: dict[str, Any] = dict(fields)
        made["prepare"] = Preprocessing.from_dict(fields["prepare"])
        for name in ("model", "inputs", "labels"):
            made[name] = None if fields[name] is None else tuple(fields[name])
        return cls(**made)
