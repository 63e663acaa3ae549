"""`tazza train char-lstm`: a text, a net that learns what comes next, its loss on text that it never saw, a sample."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from tazza.cli.console import make_console, print_text
from tazza.cli.progress import Pace
from tazza.cli.ranks import Job, follow_text, follows, share_texts
from tazza.cli.train_folder import CHECKPOINT, HISTORY, OF_EVERY, SETTINGS, remove_results, training_folder
from tazza.cli.train_settings import StoredSettings, check_length
from tazza.cli.training_run import TrainingRun
from tazza.data_class import dataclass
from tazza.db.text import CharacterText, read_characters
from tazza.distributed.data_parallel import parallel_nets
from tazza.distributed.membership import Membership
from tazza.distributed.states import share_states
from tazza.errors import ArgumentError
from tazza.interop import save_nets
from tazza.interop.model_folder import INIT, PREDICT
from tazza.models import Model, ParameterKind, adam
from tazza.models.text import Windows, nats_a_character, one_hot, sample
from tazza.models.training import Trainer, seed_operators
from tazza.models.zoo.char_lstm import (
    CHARACTERS,
    LABELS,
    SOFTMAX,
    CharLstm,
    TextState,
    carry_state,
    char_lstm,
    char_lstm_training,
)
from tazza.nets import NETS
from tazza.runtime.closing import Closing
from tazza.runtime.files import kind_of, write_bytes_atomically
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType
from tazza.workspace import Workspace

ALPHABET, SAMPLE = "alphabet.json", "sample.txt"
RESULTS = (*OF_EVERY, ALPHABET, SAMPLE)
"""What a training leaves, beside its settings."""
BEGINNING = "\n\n"
"""What a sample goes on from, where the alphabet has it."""


@dataclass(frozen=True, slots=True)
class TextSettings(StoredSettings):
    """Options of `tazza train char-lstm`, see its help. None stands for what follows from others."""

    data: str = ""
    epochs: float = 40.0
    iterations: int | None = None
    batch_size: int = 32
    steps: int = 32
    hidden: int = 192
    layers: int = 2
    dropout: float = 0.5
    input_dropout: float = 0.05
    learning_rate: float = 6e-3
    characters: int = 600
    seed: int = 1
    net_type: str | None = None
    workers: int | None = None
    checkpoint_every: int | None = None

    def updated(self, given: Mapping[str, Any]) -> TextSettings:
        """Return the settings with the options that were given.

        Raises:
            ArgumentError: options that do not go together.
        """
        check_length(given)
        length = {"iterations": None} if "epochs" in given else {}
        return replace(self, **{**length, **given})

    def check(self) -> None:
        """Check the options.

        Raises:
            ArgumentError: one is out of range.
        """
        if not self.data:
            raise ArgumentError("there is no text to learn from", hint="name a file: --data FILE")
        if not 0 < self.learning_rate < math.inf:
            raise ArgumentError(f"--learning-rate {self.learning_rate} is not above 0")
        for name in ("dropout", "input_dropout"):
            share = getattr(self, name)
            if not 0 <= share < 1:
                raise ArgumentError(f"--{name.replace('_', '-')} {share} is not in 0 ... 1, without 1")

    def iterations_of(self, windows: Windows) -> int:
        """Return how many iterations are wanted."""
        return max(1, math.ceil(self.epochs * windows.in_round)) if self.iterations is None else self.iterations


@dataclass(frozen=True, slots=True)
class TextNets:
    """The nets of a training, the states that a round begins anew, and what the net that predicts needs."""

    model: Model
    states: TextState
    sizes: CharLstm
    parameters: list[str]


def build(settings: TextSettings, text: CharacterText, iterations: int) -> TextNets:
    """Return the nets that the settings ask for.

    Raises:
        TazzaError: an unknown type of nets.
    """
    sizes = CharLstm(len(text.alphabet), settings.hidden, settings.layers, settings.dropout, settings.input_dropout)
    model = Model("char_lstm")
    window = [settings.steps, settings.batch_size]
    model.init_net.add("ConstantFill", (), CHARACTERS, shape=[*window, sizes.symbols], value=0.0)  # fed for each step
    model.init_net.add("ConstantFill", (), LABELS, shape=window, value=0, dtype=DataType.INT32.proto)
    loss, states = char_lstm_training(model, CHARACTERS, LABELS, sizes, texts=settings.batch_size)
    rate = adam(model, settings.learning_rate, policy="poly", power=1.0, max_iter=iterations)
    carry_state(model, states)
    model.net.add_external_output(loss, rate)
    if settings.net_type is not None:
        NETS[settings.net_type]
        model.net.proto.type = settings.net_type
        model.net.proto.num_workers = thread_count() if settings.workers is None else settings.workers
    seed_operators(model.init_net.proto, settings.seed)
    seed_operators(model.net.proto, settings.seed + 1)
    learned = model.parameter_blobs(ParameterKind.WEIGHT, ParameterKind.BIAS)
    return TextNets(model, states, sizes, [str(name) for name in learned])


class TextLearning(Closing):
    """A text under way: its windows and nets, those of a share of the texts side by side on one of several ranks."""

    def __init__(self, settings: TextSettings, membership: Membership) -> None:
        """Read the text and make the nets.

        Raises:
            ArgumentError: the texts cannot be divided among the ranks.
            TazzaError: whatever is wrong with the text or the nets.
        """
        self.text = read_characters(Path(settings.data))
        self.windows = Windows(self.text.train, settings.batch_size, settings.steps, settings.seed)
        self.iterations = settings.iterations_of(self.windows)
        share = membership.share_of(settings.batch_size)
        self._part = slice(membership.rank * share, (membership.rank + 1) * share)
        self.nets = build(replace(settings, batch_size=share), self.text, self.iterations)
        init, train = self.nets.model.init_net.proto, self.nets.model.net.proto
        if membership.size > 1:
            init, train = parallel_nets(init, train, membership)
            states = self.nets.states
            carried = {str(before): str(after) for before, after in zip(states.before, states.after, strict=True)}
            share_states(init, train, carried, membership)
        self.trainer = Trainer(init, train, Workspace(), accuracy=None, fed=(CHARACTERS, LABELS))

    def close(self) -> None:
        """Let go of the nets; closing twice is allowed."""
        self.trainer.close()

    def feed(self) -> None:
        """Give the net the window of the next iteration."""
        workspace, iteration = self.trainer.workspace, self.trainer.iteration
        characters, labels = (each[:, self._part] for each in self.windows.at(iteration))
        workspace.feed(CHARACTERS, one_hot(characters, len(self.text.alphabet)))
        workspace.feed(LABELS, labels)
        if self.windows.begins_round(iteration):
            for name in self.nets.states.before:
                workspace.feed(name, np.zeros_like(workspace.fetch(name)))


def train_char_lstm(given: Mapping[str, Any], out: Path, *, resume: bool, overwrite: bool) -> None:
    """Train as the options say, and write everything into `out`.

    Args:
        given: options by name.
        out: the folder.
        resume: go on with the training that is there; from its beginning where it has no checkpoint yet.
        overwrite: replace the training that is there.

    Raises:
        TazzaError: anything that the user can mend.
        KeyboardInterrupt: it was interrupted.
    """
    if follows():
        follow_text()
        return
    console = make_console()
    started = time.perf_counter()
    with training_folder(out, RESULTS, resume=resume, overwrite=overwrite):
        settings = (TextSettings.read(out / SETTINGS) if resume else TextSettings()).updated(given)
        settings.check()
        goes_on = resume and kind_of(out / CHECKPOINT) is not None
        job = Job.made(settings, out / CHECKPOINT if goes_on else None)
        with TextLearning(settings, share_texts(job)) as learning:
            if not goes_on:
                remove_results(out, RESULTS)
                settings.write(out / SETTINGS)
            text = learning.text
            learned, held = len(text.train), len(text.test)
            print_text(
                console,
                f"text: {learned} characters to learn from, the last {held} to test on, {len(text.alphabet)} different",
            )
            run = _Run(console, settings, learning, out)
            run.go(learning.trainer, settings, started, resume=goes_on)


class _Run(TrainingRun):
    """A text, fed window by window."""

    command = "tazza train char-lstm"
    tested = "test_loss"

    def __init__(self, console: Console, settings: TextSettings, learning: TextLearning, out: Path) -> None:
        every = learning.windows.in_round if settings.checkpoint_every is None else settings.checkpoint_every
        pace = Pace(settings.batch_size * settings.steps, learning.iterations, "characters")
        super().__init__(console, pace, out, iterations=learning.iterations, every=every)
        self._settings, self._learning = settings, learning
        self._text, self._windows, self._nets = learning.text, learning.windows, learning.nets

    def feed(self, trainer: Trainer) -> None:
        """Give the net the window of the next iteration."""
        del trainer
        self._learning.feed()

    def test_round(self, trainer: Trainer) -> str | None:
        """Test after each round."""
        rounds, more = divmod(trainer.iteration, self._windows.in_round)
        if not rounds or more:
            return None
        return f"epoch {rounds}  {self.pace}  test loss {self._measured(trainer):.4f} nats a character"

    def _measured(self, trainer: Trainer) -> float:
        nets, text = self._nets, self._text
        loss = nats_a_character(trainer.workspace, nets.parameters, nets.sizes, text.train, text.test)
        self.note_test(trainer, {self.tested: loss})
        return loss

    def finish(self, trainer: Trainer, started: float) -> None:
        """Test, write the nets, draw the picture, and print the results."""
        tested = self._measured(trainer)
        self.history.write(self.out / HISTORY)
        self._export(trainer.workspace)
        self.draw_curves(f"test loss {tested:.3f} nats a character", tests="loss")
        said = self._sample(trainer.workspace)
        write_bytes_atomically(self.out / SAMPLE, said.encode())
        self.say(f"a sample:\n{said}\n")
        seconds = time.perf_counter() - started
        self.say(
            f"test loss {tested:.4f} nats a character ({len(self._text.test)} characters),"
            f" {self.pace.units_per_s:.0f} characters/s, {trainer.iteration} iterations, {seconds:.1f} s in all"
        )

    def _sample(self, workspace: Workspace) -> str:
        alphabet, nets = self._text.alphabet, self._nets
        begin = BEGINNING if set(BEGINNING) <= set(alphabet) else alphabet[0]
        numbers = sample(
            workspace,
            nets.parameters,
            nets.sizes,
            self._text.numbers(begin),
            self._settings.characters,
            seed=self._settings.seed,
        )
        return "".join(alphabet[number] for number in numbers)

    def _export(self, workspace: Workspace) -> None:
        """Write the net that predicts one text, its parameters, and the alphabet that its inputs count in."""
        model = Model("char_lstm_predict")
        model.net.add_external_input(CHARACTERS)
        states = char_lstm(model, CHARACTERS, self._nets.sizes)
        inner = Workspace(parent=workspace, forwarded={name: name for name in self._nets.parameters})
        inner.run_net_once(_without(model, set(self._nets.parameters)))
        outputs = [SOFTMAX, *states.after]
        names = [*self._nets.parameters, *states.before]
        save_nets(self.out / INIT, self.out / PREDICT, model.net.proto, inner, outputs=outputs, parameters=names)
        write_bytes_atomically(self.out / ALPHABET, (json.dumps(self._text.alphabet) + "\n").encode())


def _without(model: Model, names: set[str]) -> Any:
    """Return the init net of a model but for what makes these blobs."""
    net = model.init_net.export()
    kept = [op for op in net.op if op.output[0] not in names]
    del net.op[:]
    net.op.extend(kept)
    return net
