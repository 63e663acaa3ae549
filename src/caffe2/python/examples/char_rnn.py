"""Learn the letters of a text one behind the other, and write more of its kind: an LSTM over characters.

    python -m caffe2.python.examples.char_rnn --train_data shakespeare.txt

It ends with Ctrl-C.
"""

from __future__ import annotations

import argparse
import logging
from datetime import datetime
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import brew, core, model_helper, utils, workspace
from caffe2.python.optimizer import build_sgd
from caffe2.python.rnn_cell import LSTM
from tazza.runtime.files import read_text

__all__ = ["LSTM", "brew", "build_sgd", "caffe2_pb2", "core", "datetime", "model_helper", "np", "utils", "workspace"]

logging.basicConfig()
log = logging.getLogger("char_rnn")
log.setLevel(logging.DEBUG)

GENERATED = 500
"""Characters that are written at each report."""


_UNNAMED: set[str] = set()
_CREATED: set[str] = set()


def CreateNetOnce(net: Any, created_names: set[str] = _UNNAMED) -> None:
    """Create a net the first time that it is asked for, by these names, or by those of all calls without any."""
    name, created = net.Name(), _CREATED if created_names is _UNNAMED else created_names
    if name not in created:
        created.add(name)
        workspace.CreateNet(net)


class CharRNN:
    """An LSTM over the characters of a text.

    `args` has `train_data` (a path), `seq_length`, `batch_size`, `hidden_size` and `iters_to_report`.
    """

    def __init__(self, args: Any) -> None:
        """Read the text, and number its characters.

        Raises:
            FileError: the text cannot be read.
        """
        self.seq_length: int = args.seq_length
        self.batch_size: int = args.batch_size
        self.iters_to_report: int = args.iters_to_report
        self.hidden_size: int = args.hidden_size
        self.text = read_text(args.train_data, "text")
        self.vocab = sorted(set(self.text))
        self.char_to_idx = {char: at for at, char in enumerate(self.vocab)}
        self.idx_to_char = dict(enumerate(self.vocab))
        self.D = len(self.vocab)
        print(f"Input has {self.D} characters. Total input size: {len(self.text)}")

    def CreateModel(self) -> None:
        """Make the net that trains, the one that predicts, and the one that carries the state over."""
        log.debug("Start training")
        model = model_helper.ModelHelper(name="char_rnn")
        names = ("input_blob", "seq_lengths", "hidden_init", "cell_init", "target")
        input_blob, seq_lengths, hidden_init, cell_init, target = model.net.AddExternalInputs(*names)
        hidden_output_all, self.hidden_output, _, self.cell_state = LSTM(
            model, input_blob, seq_lengths, (hidden_init, cell_init), self.D, self.hidden_size, scope="LSTM"
        )
        output = brew.fc(model, hidden_output_all, None, dim_in=self.hidden_size, dim_out=self.D, axis=2)
        softmax = model.net.Softmax(output, "softmax", axis=2)
        rows, _ = model.net.Reshape(softmax, ["softmax_reshaped", "_"], shape=[-1, self.D])
        # The net that predicts is the one that trains, without what follows.
        self.forward_net = core.Net(model.net.Proto())
        loss = model.net.AveragedLoss(model.net.LabelCrossEntropy([rows, target], "xent"), "loss")
        model.AddGradientOperators([loss])
        build_sgd(model, base_learning_rate=0.1 * self.seq_length, policy="step", stepsize=1, gamma=0.9999)
        self.model = model
        self.predictions = softmax
        self.loss = loss
        self.prepare_state = core.Net("prepare_state")
        self.prepare_state.Copy(self.hidden_output, hidden_init)
        self.prepare_state.Copy(self.cell_state, cell_init)

    def _idx_at_pos(self, pos: int) -> int:
        """Return the number of the character at a place of the text."""
        return self.char_to_idx[self.text[pos]]

    def _one_hot(self, numbers: Any) -> Any:
        """Return rows with a 1 in the column of each number."""
        return np.eye(self.D, dtype=np.float32)[numbers]

    def TrainModel(self) -> None:
        """Train for ever: each column of a batch goes through a part of the text, over and over.

        Every `iters_to_report` batches the speed, a smoothed loss and some text are printed.
        """
        log.debug("Training model")
        workspace.RunNetOnce(self.model.param_init_net)
        self._clear_state()
        CreateNetOnce(self.prepare_state)
        numbers = np.array([self.char_to_idx[char] for char in self.text])
        block = len(self.text) // self.batch_size
        starts = block * np.arange(self.batch_size)
        sizes = np.full(self.batch_size, block)
        sizes[-1] = len(self.text) - starts[-1]
        places = np.zeros(self.batch_size, int)
        smooth_loss = -np.log(1.0 / self.D) * self.seq_length
        iterations, progress, last_iterations, last_progress, last_time = 0, 0, 0, 0, datetime.now()
        while True:
            workspace.FeedBlob("seq_lengths", np.full(self.batch_size, self.seq_length, np.int32))
            workspace.RunNet(self.prepare_state.Name())
            steps = places + np.arange(self.seq_length)[:, None]  # (seq_length, batch_size)
            workspace.FeedBlob("input_blob", self._one_hot(numbers[starts + steps % sizes]))
            workspace.FeedBlob("target", numbers[starts + (steps + 1) % sizes].astype(np.int32).reshape(-1))
            places = (places + self.seq_length) % sizes
            progress += self.seq_length * self.batch_size
            CreateNetOnce(self.model.net)
            workspace.RunNet(self.model.net.Name())
            iterations += 1
            smooth_loss = 0.999 * smooth_loss + 0.001 * float(workspace.FetchBlob(self.loss)) * self.seq_length
            if iterations % self.iters_to_report == 0:
                seconds = (datetime.now() - last_time).total_seconds()
                print(f"Characters Per Second: {int((progress - last_progress) / seconds)}")
                print(f"Iterations Per Second: {int((iterations - last_iterations) / seconds)}")
                print(f"---------- Iteration {iterations} ----------")
                self.GenerateText(GENERATED, self.vocab[np.random.randint(self.D)])
                log.debug("Loss since last report: %s, smooth loss: %s", workspace.FetchBlob(self.loss), smooth_loss)
                last_iterations, last_progress, last_time = iterations, progress, datetime.now()

    def _clear_state(self) -> None:
        zeros = np.zeros([1, self.batch_size, self.hidden_size], np.float32)
        for name in (self.hidden_output, self.cell_state):
            workspace.FeedBlob(name, zeros)

    def GenerateText(self, num_characters: int, ch: str) -> None:
        """Print a character, and so many behind it, each drawn as the net says."""
        CreateNetOnce(self.forward_net)
        text = ch
        for _ in range(num_characters):
            workspace.FeedBlob("seq_lengths", np.full(self.batch_size, 1, np.int32))
            workspace.RunNet(self.prepare_state.Name())
            data = np.zeros([1, self.batch_size, self.D], np.float32)
            data[0, 0, self.char_to_idx[ch]] = 1
            workspace.FeedBlob("input_blob", data)
            workspace.RunNet(self.forward_net.Name())
            likely = np.asarray(workspace.FetchBlob(self.predictions)[0, 0], np.float64)
            ch = self.idx_to_char[int(np.random.choice(self.D, p=likely / likely.sum()))]
            text += ch
        print(text)


def main() -> None:
    """Train on a text."""
    parser = argparse.ArgumentParser(description="Caffe2: Char RNN Training")
    parser.add_argument("--train_data", type=str, required=True, help="path of a text")
    parser.add_argument("--seq_length", type=int, default=25, help="characters of an example")
    parser.add_argument("--batch_size", type=int, default=1, help="examples of a batch")
    parser.add_argument("--iters_to_report", type=int, default=500, help="batches between two reports")
    parser.add_argument("--hidden_size", type=int, default=100, help="size of the state")
    parser.add_argument("--gpu", action="store_true", help="train on GPU 0")
    given = parser.parse_args()
    device = core.DeviceOption(caffe2_pb2.CUDA if given.gpu else caffe2_pb2.CPU, 0)
    with core.DeviceScope(device):
        rnn = CharRNN(given)
        rnn.CreateModel()
        rnn.TrainModel()


if __name__ == "__main__":
    main()
