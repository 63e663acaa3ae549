"""A net that learns text character by character: layers of LSTM, and a distribution over the next character.

Letters: T steps, N texts, V characters of the alphabet, H units of a layer. The input is (T, N, V), a 1 for each
character. The state of each layer before the first step is a blob (1, N, H) that the init net puts to 0; a net that
trains puts there what the state was after the last step, so that one window of a text goes on where the one before
ended. Source: Karpathy 2015, "The unreasonable effectiveness of recurrent neural networks", and Caffe2's `char_rnn`;
dropout between layers: Zaremba, Sutskever, Vinyals 2014, arXiv 1409.2329.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.models import layers, recurrent
from tazza.models.model import Model
from tazza.models.net import BlobReference

CHARACTERS, LABELS, SOFTMAX, LOSS = "characters", "labels", "softmax", "loss"
FORGET_BIAS = 1.0
"""What a layer begins with remembers; Jozefowicz, Zaremba, Sutskever 2015."""


@dataclass(frozen=True, slots=True)
class CharLstm:
    """Sizes of a net, and what is dropped while it trains: shares of each layer's output, and of the characters."""

    symbols: int
    hidden: int
    layers: int = 2
    dropout: float = 0.5
    input_dropout: float = 0.05


@dataclass(frozen=True, slots=True)
class TextState:
    """The states of all layers, h and c each: the blobs before the first step, and those after the last."""

    before: tuple[BlobReference, ...]
    after: tuple[BlobReference, ...]


def char_lstm_scores(
    model: Model, characters: str, sizes: CharLstm, *, texts: int, is_test: bool, steps: int | None = None
) -> tuple[BlobReference, TextState]:
    """Add the layers; return scores (T, N, V) and the states.

    Args:
        model: gets the layers.
        characters: (T, N, V).
        sizes: of the net.
        texts: N.
        is_test: nothing is dropped, and there is no backward pass.
        steps: T at the most, where it is known: in a test it costs less time to keep a workspace for each.
    """
    x, width = BlobReference(characters), sizes.symbols
    if not is_test and sizes.input_dropout:
        x = layers.dropout(model, x, "characters_seen", ratio=sizes.input_dropout, is_test=False)
    before: list[BlobReference] = []
    after: list[BlobReference] = []
    for number in range(sizes.layers):
        name = "LSTM" if number == 0 else f"LSTM_layer_{number}"
        states = [
            model.init_net.add("ConstantFill", (), f"{name}_{kind}_init", shape=[1, texts, sizes.hidden], value=0.0)
            for kind in ("hidden", "cell")
        ]
        made = recurrent.lstm(
            model,
            x,
            name,
            width,
            sizes.hidden,
            initial=(states[0], states[1]),
            forget_bias=FORGET_BIAS,
            forward_only=is_test,
            num_workspaces=steps if is_test else None,
        )
        before += states
        after += [made[1], made[3]]
        x, width = made[0], sizes.hidden
        if not is_test and sizes.dropout:
            x = layers.dropout(model, x, f"{name}_dropped", ratio=sizes.dropout, is_test=False)
    scores = layers.fc(model, x, "scores", width, sizes.symbols, axis=2)
    return scores, TextState(tuple(before), tuple(after))


def char_lstm(model: Model, characters: str, sizes: CharLstm, *, texts: int = 1, steps: int | None = None) -> TextState:
    """Add a net that predicts; its blob `softmax` (T, N, V) has the probabilities of each next character."""
    scores, states = char_lstm_scores(model, characters, sizes, texts=texts, is_test=True, steps=steps)
    layers.softmax(model, scores, SOFTMAX, axis=2)
    return states


def char_lstm_training(
    model: Model, characters: str, labels: str, sizes: CharLstm, *, texts: int
) -> tuple[BlobReference, TextState]:
    """Add the layers, the loss in nats a character, and gradients; an optimizer comes after it, then `carry_state`."""
    scores, states = char_lstm_scores(model, characters, sizes, texts=texts, is_test=False)
    _, loss = layers.softmax_with_loss(model, scores, labels, [SOFTMAX, LOSS], axis=2)
    model.add_gradients([loss])
    return loss, states


def carry_state(model: Model, states: TextState) -> None:
    """Let the next run go on from the states that this one ends with."""
    _copy_all(model, states.after, states.before)


def _copy_all(model: Model, sources: Sequence[BlobReference], targets: Sequence[BlobReference]) -> None:
    for source, target in zip(sources, targets, strict=True):
        layers.copy(model, source, target)
