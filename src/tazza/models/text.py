"""Text for nets that learn it character by character: windows to train on, the loss on a test text, and samples.

Letters: T steps of a window, N texts side by side, V characters of the alphabet. A text of C characters is cut into N
equal parts, which are gone through side by side, window after window; the state of the net goes on from one window to
the next, and begins anew with each round, whose first character is another one each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.models.model import Model
from tazza.models.zoo.char_lstm import CHARACTERS, SOFTMAX, CharLstm, TextState, carry_state, char_lstm
from tazza.nets import NetBase
from tazza.workspace import Workspace

Numbers = NDArray[np.int32]
WARM = 100
"""Characters before each part of a test text that the net sees first; what it says of them is not counted."""
TEST_TEXTS, TEST_STEPS = 10, 100


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a training, by the number of the iteration, from 0."""

    text: Numbers
    texts: int
    steps: int
    seed: int

    def __post_init__(self) -> None:
        """Check that there is a window.

        Raises:
            ArgumentError: the text is too short.
        """
        if self.in_round < 1:
            needed = self.texts * self.steps + self.steps
            raise ArgumentError(
                f"{len(self.text)} characters to learn from are too few for {self.texts} texts of {self.steps} steps",
                hint=f"at least {needed} are needed: fewer steps, a smaller batch, or a longer text",
            )

    @property
    def in_round(self) -> int:
        """Windows in one round through the text; the same in each, wherever it begins."""
        return (len(self.text) - self.steps) // self.texts // self.steps

    def begins_round(self, iteration: int) -> bool:
        """Whether the state of the net begins anew."""
        return iteration % self.in_round == 0

    def at(self, iteration: int) -> tuple[Numbers, Numbers]:
        """Return the characters (T, N) of an iteration, and those that come next."""
        turn, window = divmod(iteration, self.in_round)
        first = int(np.random.default_rng((self.seed, turn)).integers(self.steps))
        part = (len(self.text) - 1 - first) // self.texts
        begins = first + part * np.arange(self.texts) + window * self.steps
        places = begins + np.arange(self.steps)[:, np.newaxis]
        return self.text[places], self.text[places + 1]


def one_hot(numbers: Numbers, symbols: int) -> NDArray[np.float32]:
    """Return a 1 for each character, (..., V)."""
    return np.eye(symbols, dtype=np.float32)[numbers]


class TextReader:
    """A net that predicts `texts` texts side by side, on parameters that lie in another workspace.

    Each call of `read` goes on where the one before ended.
    """

    def __init__(self, owner: Workspace, parameters: Sequence[str], sizes: CharLstm, *, texts: int, steps: int) -> None:
        """Make the net; `steps` is how many characters are mostly read at once."""
        self._sizes = sizes
        model = Model("char_lstm_reader")
        model.net.add_external_input(CHARACTERS)
        states = char_lstm(model, CHARACTERS, sizes, texts=texts, steps=steps)
        carry_state(model, states)
        self._states: TextState = states
        names = {name: name for name in parameters}
        self._workspace = Workspace(root=owner.root, parent=owner, forwarded=names)
        kept = [op for op in model.init_net.proto.op if op.output[0] not in names]
        del model.init_net.proto.op[:]
        model.init_net.proto.op.extend(kept)
        self._workspace.run_net_once(model.init_net.proto)
        self._workspace.feed(CHARACTERS, np.zeros((steps, texts, sizes.symbols), np.float32))
        self._net: NetBase = self._workspace.create_net(model.net.proto)

    def read(self, characters: Numbers) -> NDArray[np.float32]:
        """Read characters (T, N), and return the probabilities (T, N, V) of what comes after each."""
        self._workspace.feed(CHARACTERS, one_hot(characters, self._sizes.symbols))
        self._net.run()
        return np.asarray(self._workspace.fetch(SOFTMAX))

    def close(self) -> None:
        """End the net."""
        self._workspace.delete_net(self._net.name)


def nats_a_character(
    owner: Workspace, parameters: Sequence[str], sizes: CharLstm, before: Numbers, text: Numbers
) -> float:
    """Return the mean of -log of the probability that a net gives to each character of a text.

    The text is cut into parts that are read side by side. Every character is counted once; before each part the net
    reads the `WARM` characters in front of it, of which the first ones are the end of `before`.
    """
    texts = max(1, min(TEST_TEXTS, len(text) // TEST_STEPS))
    part = -(-len(text) // texts)
    whole = np.concatenate((before[-WARM - 1 :], text))
    ahead = len(whole) - len(text)  # characters in front of the text
    padded = np.concatenate((whole, np.zeros(part * texts - len(text), np.int32)))
    begins = part * np.arange(texts)  # of what is read, in `padded`; ahead of the part
    reader = TextReader(owner, parameters, sizes, texts=texts, steps=TEST_STEPS)
    total, length = 0.0, ahead - 1 + part
    try:
        for first in range(0, length, TEST_STEPS):
            steps = np.arange(first, min(first + TEST_STEPS, length))[:, np.newaxis]
            given = reader.read(padded[begins + steps])
            wanted = padded[begins + steps + 1]
            chances = np.take_along_axis(given, wanted[..., np.newaxis], 2)[..., 0]
            counted = (steps + 1 >= ahead) & (begins + steps + 1 < len(whole))
            total -= float(np.log(np.maximum(chances[counted], 1e-20), dtype=np.float64).sum())
    finally:
        reader.close()
    return total / len(text)


def sample(
    owner: Workspace,
    parameters: Sequence[str],
    sizes: CharLstm,
    first: Numbers,
    count: int,
    *,
    seed: int,
    on_character: Callable[[int], object] | None = None,
) -> Numbers:
    """Return `count` characters that a net says after those of `first`, each drawn by its probabilities."""
    random = np.random.default_rng(seed)
    reader = TextReader(owner, parameters, sizes, texts=1, steps=1)
    said: list[int] = []
    try:
        for number in first[:-1]:
            reader.read(np.array([[number]], np.int32))
        last = int(first[-1])
        for _ in range(count):
            chances = reader.read(np.array([[last]], np.int32))[0, 0].astype(np.float64)
            last = int(random.choice(len(chances), p=chances / chances.sum()))
            said.append(last)
            if on_character is not None:
                on_character(last)
    finally:
        reader.close()
    return np.array(said, np.int32)
