"""Characters by an LSTM: one net learns from windows of a text, a forward-only one writes with what was learned.

python char_rnn.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, optimizer, rnn_cell, workspace

TEXT = "the cat sat on the mat, the rat ran to the hat. " * 12
STEPS, BATCH, HIDDEN = 8, 4, 12
STATES = ("hidden_init", "cell_init")


class CharRNN:
    """Two nets over one set of parameters."""

    def __init__(self, text: str) -> None:
        """Number the letters of a text, and build both nets."""
        self.letters = sorted(set(text))
        self.numbers = np.array([self.letters.index(letter) for letter in text], dtype=np.int32)
        with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU, random_seed=3)):
            self.model, states, self.loss = self.build("char_rnn", train=True)
            self.writer, written_states, _ = self.build("char_rnn_forward", train=False)
        self.carry = self.copies("carry", states)
        self.carry_written = self.copies("carry_written", written_states)

    def build(self, name: str, train: bool) -> tuple[Any, Any, Any]:
        """Return a model, its last states, and its loss."""
        count = len(self.letters)
        model = model_helper.ModelHelper(name=name, init_params=train)
        data, lengths, hidden, cell, target = model.net.AddExternalInputs(
            "input_blob", "seq_lengths", STATES[0], STATES[1], "target"
        )
        outputs, last_hidden, _, last_cell = rnn_cell.LSTM(
            model, data, lengths, (hidden, cell), count, HIDDEN, scope="LSTM", forward_only=not train
        )
        scores = brew.fc(model, outputs, "scores", dim_in=HIDDEN, dim_out=count, axis=2)
        softmax = model.net.Softmax(scores, "softmax", axis=2)
        if not train:
            return model, (last_hidden, last_cell), None
        flat, _ = model.net.Reshape(softmax, ["softmax_flat", "_old_shape"], shape=[-1, count])
        xent = model.LabelCrossEntropy([flat, target], "xent")
        loss = model.AveragedLoss(xent, "loss")
        model.AddGradientOperators([loss])
        optimizer.build_sgd(model, base_learning_rate=3.0, policy="step", stepsize=20, gamma=0.9)
        return model, (last_hidden, last_cell), loss

    @staticmethod
    def copies(name: str, states: Any) -> Any:
        """Return a net that lets a window begin where the last one ended."""
        net = core.Net(name)
        for number, first in enumerate(STATES):
            net.Copy(states[number], first)
        return net

    def feed(self, windows: Any) -> None:
        """Feed letters (T, N) one-hot, and their lengths."""
        onehot = np.eye(len(self.letters), dtype=np.float32)[windows]
        workspace.FeedBlob("input_blob", onehot)
        workspace.FeedBlob("seq_lengths", np.array([windows.shape[0]] * windows.shape[1], dtype=np.int32))

    def start(self, batch: int) -> None:
        """Feed states of zeros."""
        for state in STATES:
            workspace.FeedBlob(state, np.zeros((1, batch, HIDDEN), dtype=np.float32))

    def train(self, windows: int) -> list[Any]:
        """Learn from window after window of as many parts of the text; return the losses."""
        length = len(self.numbers) // BATCH
        parts = self.numbers[: length * BATCH].reshape(BATCH, length).T  # (letters, N)
        workspace.RunNetOnce(self.model.param_init_net)
        self.start(BATCH)
        self.feed(parts[:STEPS])
        workspace.FeedBlob("target", parts[1 : STEPS + 1].reshape(-1))
        workspace.CreateNet(self.model.net)
        workspace.CreateNet(self.carry)
        losses: list[Any] = []
        for window in range(windows):
            first = window * STEPS % (length - STEPS - 1)
            self.feed(parts[first : first + STEPS])
            workspace.FeedBlob("target", parts[first + 1 : first + STEPS + 1].reshape(-1))
            workspace.RunNet(self.model.net)
            workspace.RunNet(self.carry)
            losses.append(workspace.FetchBlob(self.loss))
        return losses

    def write(self, begin: str, count: int) -> tuple[str, Any]:
        """Go on from a begin, always by the likeliest letter; return the text, and the last probabilities."""
        self.start(1)
        self.feed(np.array([[self.letters.index(letter)] for letter in begin], dtype=np.int32))
        workspace.CreateNet(self.writer.net)
        workspace.CreateNet(self.carry_written)
        text = begin
        for _ in range(count):
            workspace.RunNet(self.writer.net)
            workspace.RunNet(self.carry_written)
            best = int(workspace.FetchBlob("softmax")[-1, 0].argmax())
            text += self.letters[best]
            self.feed(np.array([[best]], dtype=np.int32))
        return text, workspace.FetchBlob("softmax")


def main(windows: int = 80) -> dict[str, Any]:
    """Learn and write; return what it began with, all losses, and what it wrote."""
    workspace.ResetWorkspace()
    rnn = CharRNN(TEXT)
    workspace.RunNetOnce(rnn.model.param_init_net)
    found: dict[str, Any] = {f"begun_{name}": workspace.FetchBlob(name) for name in rnn.model.params}
    found["losses"] = rnn.train(windows)
    text, found["probabilities"] = rnn.write("the", 24)
    found["written"] = np.array([rnn.letters.index(letter) for letter in text])
    found.update((f"found_{name}", workspace.FetchBlob(name)) for name in rnn.model.params)
    print("loss", found["losses"][-1], "wrote", repr(text))
    return found


if __name__ == "__main__":
    main()
