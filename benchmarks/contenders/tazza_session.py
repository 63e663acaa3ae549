"""tazza: predictions through `Predictor.run`, training steps by running the train net in its workspace.

Settings: `net_type` (`plan` by default) and `flags`, words of a command line. bfloat16 is the flag `fpmath`.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tazza
from benchmarks.job import BFLOAT16, INIT_FILE, PREDICT_FILE, TRAIN_FILE, Job, Session
from tazza.interop.predictor import Predictor
from tazza.nets.base import NetBase
from tazza.operator import ENGINES
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.runtime.flags import parse
from tazza.workspace import Workspace

for _name in ENGINES:
    ENGINES[_name].unavailable()  # loads the libraries behind the engines, as importing a peer loads its own


def start(job: Job) -> Session:
    """Return a session for the job."""
    return _Trains(job) if job.training else _Predicts(job)


class _Tazza:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.type = str(job.settings.get("net_type", "plan"))
        if job.precision == BFLOAT16:
            os.environ["TAZZA_FPMATH"] = "bf16"  # the flag belongs to an engine, which is not loaded yet
        parse(list(job.settings.get("flags", [])))

    def note(self) -> str:
        """Return version and net type."""
        return f"tazza {tazza.__version__}, net type {self.type}"

    def workspace(self) -> Workspace:
        """Return a workspace with the parameters."""
        made, stored = Workspace(), self.job.parameters()
        for name in stored:
            made.feed(name, stored[name])
        return made

    def definition(self, file: str) -> NetDef:
        """Return the net of a file, with the type that was asked for."""
        net = read_message(self.job.path / file, NetDef)
        net.type = self.type
        return net


class _Predicts(_Tazza):
    predictor: Predictor
    inputs: dict[str, NDArray[Any]]
    found: dict[str, Any]

    def load(self) -> None:
        """Make a predictor."""
        self.predictor = Predictor(self.definition(PREDICT_FILE), self.workspace(), inputs=list(self.job.net.inputs))
        self.inputs = self.job.inputs()

    def run(self) -> None:
        """Predict a batch."""
        self.found = self.predictor.run(self.inputs)

    def result(self) -> NDArray[Any]:
        """Return the probabilities."""
        return np.asarray(self.found[self.job.net.output])


class _Trains(_Tazza):
    made: Workspace
    net: NetBase

    def load(self) -> None:
        """Make the train net, and what it needs beside parameters."""
        self.made = self.workspace()
        self.made.run_net_once(read_message(self.job.path / INIT_FILE, NetDef))
        for name, value in self.job.inputs().items():
            self.made.feed(name, value)
        self.net = self.made.create_net(self.definition(TRAIN_FILE))

    def run(self) -> None:
        """Train one step."""
        self.net.run()

    def result(self) -> NDArray[Any]:
        """Return the loss."""
        return np.asarray(self.made.fetch(self.job.net.output)).reshape(1)
