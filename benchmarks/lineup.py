"""Who runs what: the works, and the contenders that can do each of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.job import BFLOAT16, FLOAT32

OWN = "tazza"
"""Name of the contender that all others are measured against."""
INVARIANT = OWN + " any batch"
"""tazza where an image has the same bits in any batch: what that costs."""
BEFORE = "before"
"""Name of a peer that is tazza too, from another source tree."""
AGAIN = " again"
"""Behind the name of a contender that runs a second time, as a control."""


@dataclass(frozen=True, slots=True)
class Work:
    """One line of the results: a net, a batch, and what is done with it."""

    net: str
    batch: int
    training: bool = False
    precision: str = FLOAT32
    at_most: float | None = None
    """The ratio to the best peer that is aimed at."""

    @property
    def name(self) -> str:
        """A name of small letters, digits and dashes.

        >>> Work("lenet", 64, training=True).name, Work("resnet50", 1, precision=BFLOAT16).name
        ('lenet-train-64', 'resnet50-bf16-1')
        """
        kind = "-train" if self.training else ""
        return f"{self.net}{kind}{'-bf16' if self.precision == BFLOAT16 else ''}-{self.batch}"

    @property
    def options(self) -> dict[str, Any]:
        """Options of the builder: nothing is dropped at random in training, so that all get the same losses."""
        return {"dropout": 0.0} if self.training and self.net == "mobilenet_v2" else {}

    @property
    def folder(self) -> str:
        """Name of the folder in which the net lies; works that differ in batch and precision share it."""
        return f"{self.net}-train" if self.training else self.net


WORKS = (
    Work("lenet", 1, at_most=0.80),
    Work("lenet", 64, at_most=0.65),
    Work("mlp", 1, at_most=0.90),
    Work("mlp", 64, at_most=0.95),
    Work("squeezenet", 1, at_most=0.95),
    Work("squeezenet", 16, at_most=0.95),
    Work("googlenet", 1, at_most=0.95),
    Work("googlenet", 16, at_most=0.95),
    Work("vgg16", 1, at_most=0.95),
    Work("vgg16", 16, at_most=0.95),
    Work("resnet50", 1, at_most=0.90),
    Work("resnet50", 16, at_most=0.90),
    Work("mobilenet_v2", 1, at_most=0.95),
    Work("mobilenet_v2", 16, at_most=0.95),
    Work("lenet", 64, precision=BFLOAT16, at_most=1.00),
    Work("resnet50", 1, precision=BFLOAT16, at_most=0.88),
    Work("resnet50", 16, precision=BFLOAT16, at_most=1.00),
    Work("lenet", 64, training=True, at_most=0.50),
    Work("mlp", 64, training=True, at_most=0.50),
    Work("resnet50", 16, training=True, at_most=0.65),
    Work("mobilenet_v2", 16, training=True, at_most=0.65),
)

QUICK = ("lenet-1", "mlp-1", "squeezenet-1", "resnet50-1", "mobilenet_v2-1", "lenet-train-64", "mlp-train-64")
"""Works of the quick run."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A runtime with settings."""

    name: str
    module: str
    """Where its session is made, see `benchmarks.contenders`."""
    needs: Sequence[str] = ()
    """Modules that must be installed."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    predicts: Sequence[str] = (FLOAT32,)
    """Precisions in which it predicts."""
    trains: bool = False
    quick: bool = True
    """Whether it starts quickly enough for the quick run."""
    tree: str = ""
    """Source tree that it runs from, where that is not this one."""

    @property
    def own(self) -> bool:
        """Whether it is tazza, of any source tree, which runs on this Python; peers may have one of their own."""
        return self.module == "tazza_session"

    def does(self, work: Work) -> bool:
        """Whether it can do a work."""
        return self.trains if work.training else work.precision in self.predicts


BOTH = (FLOAT32, BFLOAT16)

CONTENDERS = (
    Contender(OWN, "tazza_session", predicts=BOTH, trains=True),
    Contender(INVARIANT, "tazza_session", settings={"flags": ["--batch_invariant"]}, quick=False),
    Contender("onnxruntime", "onnxruntime_session", ("onnxruntime", "onnx")),
    Contender("openvino", "openvino_session", ("openvino", "onnx"), predicts=BOTH),
    Contender("torch", "torch_session", ("torch",), trains=True),
    Contender("torch channels-last", "torch_session", ("torch",), {"channels_last": True}, predicts=BOTH, trains=True),
    Contender(
        "torch compile",
        "torch_session",
        ("torch",),
        {"compile": True, "channels_last": True},
        predicts=BOTH,
        trains=True,
        quick=False,
    ),
)


def chosen_works(names: Iterable[str], *, quick: bool) -> list[Work]:
    """Return works by name or by net (`resnet50`, `resnet50-train`, `resnet50-16`); all, or the quick ones, by default.

    >>> [work.name for work in chosen_works(["lenet", "mlp-train"], quick=False)]
    ['lenet-1', 'lenet-64', 'mlp-train-64']

    Raises:
        ValueError: a name that no work has.
    """
    wanted = list(names)
    for name in wanted:
        if not any(_matches(work, name) for work in WORKS):
            raise ValueError(f"no work is called {name!r}; works: {', '.join(work.name for work in WORKS)}")
    if wanted:
        return [work for work in WORKS if any(_matches(work, name) for name in wanted)]
    return [work for work in WORKS if not quick or work.name in QUICK]


def _matches(work: Work, name: str) -> bool:
    return name in (work.name, work.name.rpartition("-")[0], "all")


def chosen_contenders(names: Iterable[str], *, quick: bool, before: str = "") -> list[Contender]:
    """Return contenders by name, where `torch` stands for every one that needs torch; tazza is always among them.

    `before` is a source tree of tazza, which becomes a peer of that name.

    >>> [contender.name for contender in chosen_contenders(["onnxruntime"], quick=False)]
    ['tazza', 'onnxruntime']
    >>> [contender.name for contender in chosen_contenders(["before"], quick=False, before="../old")]
    ['tazza', 'before']

    Raises:
        ValueError: a name that no contender has.
    """
    wanted = list(names)
    there = [*CONTENDERS, *([replace(CONTENDERS[0], name=BEFORE, tree=before)] if before else [])]
    for name in wanted:
        if not any(name in (contender.name, *contender.needs) for contender in there):
            raise ValueError(f"no contender is called {name!r}; contenders: {', '.join(c.name for c in there)}")
    if wanted:
        return [each for each in there if each.name == OWN or set(wanted) & {each.name, *each.needs}]
    return [each for each in there if each.quick or not quick]
