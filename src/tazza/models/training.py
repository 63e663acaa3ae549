"""Training: running a train net again and again, testing what it learned, and checkpoints to go on from.

    with Trainer(model.init_net.proto, model.net.proto, Workspace()) as trainer:
        for step in trainer.run(1000, checkpoint=Path("lenet.checkpoint"), every=100):
            print(step.iteration, step.loss)

A checkpoint holds the state of a training: all tensors that one run of the train net takes over from the run before
(parameters, momenta, the counter of iterations, constants), how many runs there were, how many records each reader has
given, and where the random generators of operators are. It is a minidb of blobs as the operator `Save` writes them. A
training that goes on from it with the same type of net has the same losses, to the last bit, as one that never ended.

Where the net is one of several ranks, rank 0 writes, and all read. A training may go on with another number of ranks,
which then take other shares of the same records; generators go on on rank 0, those of others begin anew.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db import DBReader, open_db
from tazza.errors import ArgumentError, FileError, FormatError, NumericError, ShapeError
from tazza.models.rate import rates_of
from tazza.operator import Effects, effects_of, find_argument, operator_def, read_first, touched_by
from tazza.ops.distributed.communicator import CommonWorld
from tazza.proto import NetDef
from tazza.runtime.closing import Closing
from tazza.runtime.files import kind_of, resolved, shown
from tazza.tensor import Tensor
from tazza.tensor.serialization import blob_name_of_key
from tazza.workspace import Workspace

ITERATIONS = "training/iterations"
RECORDS = "training/records"
GENERATORS = "training/random"
RANKS = "training/ranks"
"""How many ranks read as many records as the checkpoint says each, where there were several."""
CHECKPOINT_TYPE = "minidb"
SEED_STEP = 1_000_003
"""Seeds of operators are this far apart from one seed of a training to the next; a prime, so that they do not meet."""


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """What one run of the train net gave; `iteration` counts from 1. None where the net has no such blob."""

    iteration: int
    loss: float
    accuracy: float | None
    learning_rate: float | None


def seed_operators(net: NetDef, seed: int) -> None:
    """Give every operator of a net that has no seed one of its own, which follows from `seed` and its position."""
    for position, op in enumerate(net.op):
        if not op.device_option.HasField("random_seed"):
            op.device_option.random_seed = (seed * SEED_STEP + position) % 2**31


def carried_blobs(net: NetDef) -> list[str]:
    """Return the blobs whose values one run of a net takes over from the run before, or from whoever fed them.

    These are the blobs that are read before anything writes them, and the outputs of operators without input that look
    at what these hold: counters.

    >>> carried_blobs(NetDef(op=[operator_def("Relu", ["x"], ["y"]), operator_def("Sum", ["y", "b"], ["b"])]))
    ['x', 'b']
    """
    counters = (name for op in net.op if not op.input and effects_of(op) >= Effects.STATE for name in op.output)
    return list(dict.fromkeys((*read_first(net.op), *counters)))


def _keeping(net: NetDef, names: Iterable[str]) -> NetDef:
    """Return a net that leaves these blobs in the workspace, if it writes them; its type might keep them to itself."""
    made = NetDef()
    made.CopyFrom(net)
    written = touched_by(net).writes
    keep = find_argument(made, "keep")
    if keep is None:
        keep = made.arg.add(name="keep")
    keep.strings.extend(name.encode() for name in names if name in written)
    return made


class Trainer(Closing):
    """A train net in a workspace, how often it ran, and where its readers are.

    The init net is run once, here; the train net once for each step.
    """

    def __init__(
        self,
        init_net: NetDef,
        train_net: NetDef,
        workspace: Workspace,
        *,
        loss: str = "loss",
        accuracy: str | None = "accuracy",
        fed: Collection[str] = (),
        strict: bool = False,
    ) -> None:
        """Run `init_net` and create `train_net`.

        Args:
            init_net: makes the parameters and whatever else the train net reads.
            train_net: computes the loss and updates the parameters.
            workspace: where both run.
            loss: blob of one number.
            accuracy: blob of one number; None when the net has none.
            fed: blobs that are fed before each step, and are no part of the state.
            strict: refuse arguments that a schema does not know.

        Raises:
            ArgumentError: the train net does not make `loss` or `accuracy`.
            TazzaError: whatever is wrong with the nets.
        """
        made = touched_by(train_net).writes
        for name in (loss,) if accuracy is None else (loss, accuracy):
            if name not in made:
                raise ArgumentError(
                    f"net {train_net.name!r} makes no blob {name!r}",
                    hint="name the blob that holds it, if another does",
                )
        self.workspace = workspace
        self.iteration = 0
        """Runs of the train net so far, those before a checkpoint included."""
        self._loss, self._accuracy = loss, accuracy
        self._rate = next(iter(rates_of(train_net)), None)
        workspace.run_net_once(init_net, strict=strict)
        self.net = workspace.create_net(_keeping(train_net, carried_blobs(train_net)), strict=strict)
        self._records_a_step = self._find_readers()
        self._records = dict.fromkeys(self._records_a_step, 0)
        self.world = self._find_world()
        """The rank that this is of several; None where it is alone."""
        self._carried = [name for name in carried_blobs(self.net.definition) if name not in fed]

    def close(self) -> None:
        """Close the net and its readers; closing twice is allowed. The blobs stay."""
        self.workspace.delete_net(self.net.name)
        close_readers(self.workspace, self._records_a_step)

    def _find_readers(self) -> dict[str, int]:
        """Return each reader that the net takes records from, and how many it gives in one run."""
        found: dict[str, int] = {}
        for operator in self.net.operators:
            for blob in operator.inputs:
                if isinstance(blob.value, DBReader):
                    batch = int(operator.op.arguments.get("batch_size", 1))
                    found[blob.name] = found.get(blob.name, 0) + max(1, batch)
        return found

    def _find_world(self) -> CommonWorld | None:
        """Return the rank as which the net exchanges with others."""
        held = (blob.value for operator in self.net.operators for blob in operator.inputs)
        return next((value for value in held if isinstance(value, CommonWorld)), None)

    @property
    def ranks(self) -> int:
        """How many learn together."""
        return 1 if self.world is None else self.world.size

    @property
    def leads(self) -> bool:
        """Whether this is the rank that writes files."""
        return self.world is None or self.world.rank == 0

    # -- running -----------------------------------------------------------------------------------------------------

    def step(self) -> TrainingStep:
        """Run the train net once.

        Raises:
            NumericError: the loss is not a finite number; the parameters are spoiled then.
            TazzaError: the net failed.
        """
        self.net.run()
        self.iteration += 1
        for reader, count in self._records_a_step.items():
            self._records[reader] += count
        step = TrainingStep(
            self.iteration,
            self._number(self._loss),
            None if self._accuracy is None else self._number(self._accuracy),
            None if self._rate is None else abs(self._number(self._rate)),
        )
        if not math.isfinite(step.loss):
            rate = "" if step.learning_rate is None else f", at a learning rate of {step.learning_rate:.6g}"
            raise NumericError(
                f"net {self.net.name!r}: the loss is {step.loss} in iteration {step.iteration}{rate}",
                hint="lower the learning rate, or look at the data",
            )
        return step

    def _number(self, name: str) -> float:
        value = self.workspace.blob(name).value
        if not isinstance(value, Tensor) or value.size != 1:
            raise ShapeError(f"blob {name!r} is {self.workspace.blob(name).describe()}, not one number")
        return float(value.plain().reshape(()))

    def run(self, iterations: int, *, checkpoint: Path | None = None, every: int = 0) -> Iterator[TrainingStep]:
        """Yield steps until `iterations` of them, those before a loaded checkpoint included, are done.

        A checkpoint is written after each `every` iterations (0: never) and after the last, before its step is
        yielded. What ends the training in between leaves the one before.

        Raises:
            NumericError, TazzaError: as `step`.
            FileError, DBError: the checkpoint cannot be written.
        """
        while self.iteration < iterations:
            step = self.step()
            due = step.iteration == iterations or (every > 0 and step.iteration % every == 0)
            if checkpoint is not None and due:
                self.save(checkpoint)
            yield step

    # -- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a checkpoint; what was there before is replaced as a whole or not at all. Ranks above 0 write none.

        Raises:
            FileError, DBError: it cannot be written.
        """
        if not self.leads:
            return
        names = [*self._state(), *self._feed_counters(), *self._feed_generators()]
        save = operator_def("Save", names, [], db=str(resolved(path)), db_type=CHECKPOINT_TYPE, absolute_path=1)
        self.workspace.run_operator(save)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from a checkpoint: restore all it holds, and take the readers to where they were.

        Raises:
            ArgumentError: a step was run already.
            FileError: there is no such file.
            DBError, FormatError: it is broken, or is of another net.
            ShapeError: a blob of it has another shape than the init net gave; it is of another net.
        """
        if self.iteration:
            raise ArgumentError(
                f"a checkpoint is loaded before the first step, and {self.iteration} were run",
                hint="make a new Trainer in a new workspace",
            )
        source = resolved(path)
        if kind_of(source) is None:
            raise FileError(f"there is no checkpoint {shown(source)}", hint="start without one")
        stored, before = stored_names(source), {name: self._shape(name) for name in self._state()}
        missing = [name for name in (ITERATIONS, *map(_records_name, self._records), *before) if name not in stored]
        if missing:
            raise FormatError(
                f"checkpoint '{source}' has no blob {missing[0]!r}, which net {self.net.name!r} goes on from",
                hint="it was written by another net, or with another solver",
            )
        load = operator_def("Load", [], stored, db=str(source), db_type=CHECKPOINT_TYPE, absolute_path=1)
        self.workspace.run_operator(load)
        for name, shape in before.items():
            if shape != self._shape(name):
                raise ShapeError(
                    f"checkpoint '{source}': blob {name!r} has the shape {self._shape(name)}, the net's is {shape}",
                    hint="the checkpoint was written by another net",
                )
        self.iteration = self._count(ITERATIONS, source)
        before_ranks = self._count(RANKS, source) if RANKS in stored else 1
        for reader in self._records:
            self._records[reader] = self._count(_records_name(reader), source) * before_ranks // self.ranks
            skip_records(self.workspace.blob(reader).get(DBReader), self._records[reader])
        for name in stored if self.leads else ():
            if name.startswith(f"{GENERATORS}/"):
                self.net.restore_generator(name.removeprefix(f"{GENERATORS}/"), self._generator_state(name, source))

    def _generator_state(self, name: str, source: Path) -> NDArray[np.int32]:
        """Return the state of a random generator in a checkpoint."""
        value = self.workspace.blob(name).value
        state: NDArray[Any] = value.plain() if isinstance(value, Tensor) else np.empty(0)
        if state.dtype != np.int32:
            raise FormatError(
                f"checkpoint {shown(source)}: {name!r} is {self.workspace.blob(name).describe()}, and no state of int32"
            )
        return state

    def _count(self, name: str, source: Path) -> int:
        """Return a counter of a checkpoint."""
        value = self.workspace.blob(name).value
        count = value.plain().reshape(-1) if isinstance(value, Tensor) else np.empty(0)
        if count.dtype.kind not in "iu" or count.size != 1 or count[0] < 0:
            raise FormatError(
                f"checkpoint {shown(source)}: {name!r} is {self.workspace.blob(name).describe()}, not one count from 0",
                hint="the file is damaged, or was not written by a Trainer",
            )
        return int(count[0])

    def _state(self) -> list[str]:
        """Return the tensors that make up the state; a counter without input joins them when it first ran."""
        return [name for name in self._carried if isinstance(self.workspace.blob(name).value, Tensor)]

    def _shape(self, name: str) -> tuple[int, ...] | None:
        value = self.workspace.blob(name).value
        return tuple(value.shape) if isinstance(value, Tensor) else None

    def _feed_counters(self) -> list[str]:
        """Put the counters into blobs, and return their names."""
        counters = {ITERATIONS: self.iteration}
        if self.ranks > 1:
            counters[RANKS] = self.ranks
        counters.update((_records_name(reader), count) for reader, count in self._records.items())
        for name, count in counters.items():
            self.workspace.feed(name, np.array([count], np.int64))
        return list(counters)

    def _feed_generators(self) -> list[str]:
        """Put the states of random generators into blobs, and return their names."""
        states = {f"{GENERATORS}/{key}": generator.state() for key, generator in self.net.generators().items()}
        for name, state in states.items():
            self.workspace.feed(name, state)
        return list(states)


def _records_name(reader: str) -> str:
    return f"{RECORDS}/{reader}"


def stored_names(checkpoint: Path) -> list[str]:
    """Return the names of the blobs in a checkpoint.

    Raises:
        DBError: the file is no whole minidb.
    """
    with open_db(CHECKPOINT_TYPE, checkpoint) as db, db.cursor() as cursor:
        names: dict[str, None] = {}
        while cursor.valid:
            names[blob_name_of_key(cursor.key.decode(errors="replace"))] = None
            cursor.next()
    return list(names)


def skip_records(reader: DBReader, count: int) -> None:
    """Take a new reader to where it was after `count` records; whole rounds through its shard are left out."""
    with reader.cursor() as cursor:
        total = 0
        while cursor.valid:
            total += 1
            cursor.next()
    own = len(range(reader.shard_id, total, reader.num_shards))
    shard = total // math.gcd(total, reader.num_shards) if reader.endless else own
    for _ in range(count % shard):
        reader.read()


def close_readers(workspace: Workspace, names: Iterable[str]) -> None:
    """Close the readers that blobs hold; other blobs, and names without one, are left alone."""
    for name in names:
        blob = workspace.get_blob(name)
        if blob is not None and isinstance(blob.value, DBReader):
            blob.value.close()
