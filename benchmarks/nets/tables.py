"""A DLRM on a log of clicks: training with rows of tables updated by row-wise Adagrad, and inference in few bits.

    python -m benchmarks.nets tables

PyTorch runs the same net of `EmbeddingBag` with sparse gradients, under SGD and Adagrad; fbgemm, where it is installed,
keeps all tables in one of its operators, which updates rows by row-wise Adagrad itself. Batches are drawn beforehand,
and everybody gets the same one in every run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.nets.turns import Turn, timed
from examples.dlrm import SMALL, Array, ClickLog, feed
from tazza.interop.table import with_tables_in
from tazza.models import adagrad
from tazza.models.zoo.dlrm import DENSE, LABEL, Dlrm, indices, lengths
from tazza.runtime.threads import thread_count
from tazza.workspace import Workspace

BATCH, RATE, EPSILON = 512, 0.01, 1e-4
TRAIN = "training"
BITS = (32, 8, 4)
SGD, ADAGRAD, FBGEMM, EAGER = "torch SGD", "torch Adagrad", "fbgemm row-wise Adagrad", "torch"
Run = Callable[[], object]


def sizes_for(*, quick: bool) -> Dlrm:
    """Return the sizes of the net."""
    return SMALL if quick else Dlrm()


def blobs_for(sizes: Dlrm) -> dict[str, Array]:
    """Return the blobs of a batch."""
    return ClickLog(sizes).draw(BATCH)[0]


# -- ours --------------------------------------------------------------------------------------------------------------


def our_step(sizes: Dlrm, blobs: dict[str, Array]) -> Run:
    """Return a step of training, as a plan."""
    model, workspace = sizes.training(), Workspace()
    adagrad(model, RATE, epsilon=EPSILON, row_wise=True)
    model.net.proto.type = "plan"
    workspace.run_net_once(model.init_net.proto)
    feed(workspace, blobs)
    return workspace.create_net(model.net.proto).run


def our_inference(sizes: Dlrm, blobs: dict[str, Array], bits: int) -> Run:
    """Return a run of the net that predicts, with tables of so many bits."""
    model, workspace = sizes.inference(), Workspace()
    workspace.run_net_once(model.init_net.proto)
    feed(workspace, blobs)
    net = model.net.proto
    if bits != BITS[0]:
        names = [f"table{table}_w" for table in range(len(sizes.rows))]
        net, tables = with_tables_in(bits, net, {name: workspace.fetch(name) for name in names})
        feed(workspace, tables)
    net.type = "plan"
    return workspace.create_net(net).run


# -- peers -------------------------------------------------------------------------------------------------------------


class TorchNet:
    """The same net in PyTorch; `bags` gives the sums of rows (N, T, D), from its own tables unless told otherwise."""

    def __init__(self, sizes: Dlrm, blobs: dict[str, Array]) -> None:
        """Make it, and bring the batch to PyTorch."""
        torch: Any = import_module("torch")
        torch.set_num_threads(thread_count())
        self.torch: Any = torch
        nn: Any = torch.nn
        self.bottom = self._perceptron((sizes.numbers, *sizes.bottom, sizes.width), end=True)
        self.top = self._perceptron((sizes.width + sizes.pairs, *sizes.top, 1), end=False)
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, sizes.width, mode="sum", sparse=True) for rows in sizes.rows)
        count = len(sizes.rows) + 1
        first, second = np.tril_indices(count, -1)
        self.pairs = torch.from_numpy(first * count + second)
        self.dense, self.label = torch.from_numpy(blobs[DENSE]), torch.from_numpy(blobs[LABEL])
        self.indices: list[Any] = [torch.from_numpy(blobs[indices(table)]) for table in range(len(sizes.rows))]
        starts = (np.cumsum(blobs[lengths(table)]) - blobs[lengths(table)] for table in range(len(sizes.rows)))
        self.starts: list[Any] = [torch.from_numpy(one.astype(np.int64)) for one in starts]

    def _perceptron(self, widths: tuple[int, ...], *, end: bool) -> Any:
        nn: Any = self.torch.nn
        parts: list[Any] = []
        for before, after in itertools.pairwise(widths):
            parts += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*(parts if end else parts[:-1]))

    def bags(self) -> list[Any]:
        """Return the sums of rows of each table, (N, D)."""
        return [table(own, starts) for table, own, starts in zip(self.tables, self.indices, self.starts, strict=True)]

    def score(self) -> Any:
        """Return the scores of the batch."""
        torch = self.torch
        x = self.bottom(self.dense)
        vectors = torch.stack([x, *self.bags()], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat([x, products], 1))

    def infer(self) -> None:
        """Predict."""
        with self.torch.no_grad():
            self.torch.sigmoid(self.score())

    def step(self, optimizer: Any) -> Run:
        """Return a step of training."""
        loss: Any = self.torch.nn.functional.binary_cross_entropy_with_logits

        def run() -> None:
            optimizer.zero_grad()
            loss(self.score(), self.label).backward()
            optimizer.step()

        return run

    def parameters(self, *, with_tables: bool = True) -> list[Any]:
        """Return what is trained."""
        parts = [self.bottom, self.top, *([self.tables] if with_tables else [])]
        return [one for part in parts for one in part.parameters()]


class FbgemmNet(TorchNet):
    """The same, its tables in one operator of fbgemm, which updates them in its backward pass."""

    def __init__(self, sizes: Dlrm, blobs: dict[str, Array]) -> None:
        """Make it."""
        configs, common, ours = (
            import_module(f"fbgemm_gpu.{name}")
            for name in (
                "split_embedding_configs",
                "split_table_batched_embeddings_ops_common",
                "split_table_batched_embeddings_ops_training",
            )
        )
        place: Any = (common.EmbeddingLocation.HOST, ours.ComputeDevice.CPU)
        super().__init__(sizes, blobs)
        self.count = len(sizes.rows)
        self.merged: Any = ours.SplitTableBatchedEmbeddingBagsCodegen(
            [(rows, sizes.width, *place) for rows in sizes.rows],
            optimizer=configs.EmbOptimType.EXACT_ROWWISE_ADAGRAD,
            learning_rate=RATE,
            eps=EPSILON,
        )
        all_lengths = np.concatenate([blobs[lengths(table)] for table in range(self.count)])
        self.all_indices = self.torch.cat(self.indices)
        self.offsets = self.torch.from_numpy(np.concatenate([[0], np.cumsum(all_lengths)]).astype(np.int64))

    def bags(self) -> list[Any]:
        """Return the sums of rows of each table."""
        return list(self.merged(self.all_indices, self.offsets).chunk(self.count, 1))


def their_steps(sizes: Dlrm, blobs: dict[str, Array]) -> dict[str, Run]:
    """Return the steps of training of those that are installed, by name."""
    if find_spec("torch") is None:
        return {}
    torch: Any = import_module("torch")
    optimizers = torch.optim
    found: dict[str, Run] = {}
    for name, kind in ((SGD, optimizers.SGD), (ADAGRAD, optimizers.Adagrad)):
        net = TorchNet(sizes, blobs)
        found[name] = net.step(kind(net.parameters(), lr=RATE))
    if find_spec("fbgemm_gpu") is not None:
        net = FbgemmNet(sizes, blobs)
        found[FBGEMM] = net.step(optimizers.Adagrad(net.parameters(with_tables=False), lr=RATE))
    return found


def training_turns(*, quick: bool) -> dict[str, Turn]:
    """Return who trains; ours is `TRAIN`."""
    sizes = sizes_for(quick=quick)
    blobs = blobs_for(sizes)
    return {name: timed(run) for name, run in {TRAIN: our_step(sizes, blobs), **their_steps(sizes, blobs)}.items()}


def inference_turns(*, quick: bool) -> dict[str, Turn]:
    """Return who predicts; ours are named by the bits of their tables."""
    sizes = sizes_for(quick=quick)
    blobs = blobs_for(sizes)
    found = {f"{bits} bits": timed(our_inference(sizes, blobs, bits)) for bits in BITS}
    if find_spec("torch") is not None:
        found[EAGER] = timed(TorchNet(sizes, blobs).infer)
    return found
