"""A DLRM on a log of clicks: training with rows of tables updated by row-wise Adagrad, and inference in few bits.

    python -m benchmarks.nets tables

PyTorch runs the same net of `EmbeddingBag` with sparse gradients, under SGD and Adagrad, eager and compiled; fbgemm,
where it is installed, keeps all tables in one of its operators, which updates rows by row-wise Adagrad itself. Batches
are drawn beforehand, and everybody gets the same one in every run.

    python -m benchmarks.nets.tables "torch SGD"    trains, and prints the memory that it takes, in bytes

That is the most that is resident while steps run, without what was resident after a step of a small net.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.memory import peak_bytes, reset_peak, resident_bytes
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
COMPILED = ", compiled"
"""What the name of a peer ends with whose net PyTorch compiles."""
OPTIMIZERS = {SGD: "SGD", ADAGRAD: "Adagrad"}
WARM, STEPS = 2, 3
"""Steps before memory is looked at, and while it is."""
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

    def __init__(self, sizes: Dlrm, blobs: dict[str, Array], *, compiled: bool = False) -> None:
        """Make it, and bring the batch to PyTorch; `compiled`: scores and loss, backward too, are compiled."""
        torch: Any = import_module("torch")
        torch.set_num_threads(thread_count())
        self.torch: Any = torch
        nn: Any = torch.nn
        self.bottom = self._perceptron((sizes.numbers, *sizes.bottom, sizes.width), end=True)
        self.top = self._perceptron((sizes.width + sizes.pairs, *sizes.top, 1), end=False)
        self.tables = nn.ModuleList(self._tables(sizes))
        count = len(sizes.rows) + 1
        first, second = np.tril_indices(count, -1)
        self.pairs = torch.from_numpy(first * count + second)
        self.dense, self.label = torch.from_numpy(blobs[DENSE]), torch.from_numpy(blobs[LABEL])
        self.indices: list[Any] = [torch.from_numpy(blobs[indices(table)]) for table in range(len(sizes.rows))]
        starts = (np.cumsum(blobs[lengths(table)]) - blobs[lengths(table)] for table in range(len(sizes.rows)))
        self.starts: list[Any] = [torch.from_numpy(one.astype(np.int64)) for one in starts]
        ways: tuple[Run, Run] = (self.score, self.loss)
        self._score, self._loss = map(torch.compile, ways) if compiled else ways

    def _tables(self, sizes: Dlrm) -> list[Any]:
        """Return the tables that the net has itself."""
        bag: Any = self.torch.nn.EmbeddingBag
        return [bag(rows, sizes.width, mode="sum", sparse=True) for rows in sizes.rows]

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

    def loss(self) -> Any:
        """Return the mean loss of the batch."""
        return self.torch.nn.functional.binary_cross_entropy_with_logits(self.score(), self.label)

    def infer(self) -> None:
        """Predict."""
        with self.torch.no_grad():
            self.torch.sigmoid(self._score())

    def step(self, optimizer: Any) -> Run:
        """Return a step of training."""

        def run() -> None:
            optimizer.zero_grad()
            loss: Any = self._loss()
            loss.backward()
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

    def _tables(self, sizes: Dlrm) -> list[Any]:
        """Return none: the operator has them."""
        del sizes
        return []

    def bags(self) -> list[Any]:
        """Return the sums of rows of each table."""
        return list(self.merged(self.all_indices, self.offsets).chunk(self.count, 1))


def trainers() -> list[str]:
    """Return who trains, as far as it is installed; ours is `TRAIN`."""
    found = [TRAIN]
    if find_spec("torch") is not None:
        found += [f"{name}{how}" for name in OPTIMIZERS for how in ("", COMPILED)]
        found += [FBGEMM] if find_spec("fbgemm_gpu") is not None else []
    return found


def step_of(name: str, sizes: Dlrm, blobs: dict[str, Array]) -> Run:
    """Return a step of training of one of `trainers`."""
    if name == TRAIN:
        return our_step(sizes, blobs)
    optimizers: Any = import_module("torch").optim
    if name == FBGEMM:
        merged = FbgemmNet(sizes, blobs)
        return merged.step(optimizers.Adagrad(merged.parameters(with_tables=False), lr=RATE))
    net = TorchNet(sizes, blobs, compiled=name.endswith(COMPILED))
    kind: Any = getattr(optimizers, OPTIMIZERS[name.removesuffix(COMPILED)])
    return net.step(kind(net.parameters(), lr=RATE))


def able(name: str, run: Run) -> bool:
    """Return whether it runs; say why not where PyTorch cannot compile, as without a compiler for C++."""
    try:
        run()
    except Exception as error:
        if not name.endswith(COMPILED):
            raise
        print(f"{name} is left out: {type(error).__name__}: {str(error).partition(chr(10))[0]}", file=sys.stderr)
        return False
    return True


def training_turns(*, quick: bool) -> dict[str, Turn]:
    """Return who trains; ours is `TRAIN`."""
    sizes = sizes_for(quick=quick)
    blobs = blobs_for(sizes)
    runs = {name: step_of(name, sizes, blobs) for name in trainers()}
    return {name: timed(run) for name, run in runs.items() if able(name, run)}


def inference_turns(*, quick: bool) -> dict[str, Turn]:
    """Return who predicts; ours are named by the bits of their tables."""
    sizes = sizes_for(quick=quick)
    blobs = blobs_for(sizes)
    runs: dict[str, Run] = {f"{bits} bits": our_inference(sizes, blobs, bits) for bits in BITS}
    if find_spec("torch") is not None:
        runs |= {name: TorchNet(sizes, blobs, compiled=name != EAGER).infer for name in (EAGER, EAGER + COMPILED)}
    return {name: timed(run) for name, run in runs.items() if able(name, run)}


# -- memory ------------------------------------------------------------------------------------------------------------


def memory_of(name: str, *, quick: bool) -> int | None:
    """Return the bytes that somebody takes who only trains, in a process of its own; None where it cannot train."""
    command = [sys.executable, "-m", "benchmarks.nets.tables", name, *(["--quick"] if quick else [])]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    return int(found[-1]) if found else None


def main() -> None:
    """Train as the command line says, and print the bytes that it takes; nothing where it cannot."""
    parser = argparse.ArgumentParser(description="tell the memory of a training")
    parser.add_argument("name", choices=trainers())
    parser.add_argument("--quick", action="store_true", help="small tables")
    given = parser.parse_args()
    if not able(given.name, step_of(given.name, SMALL, blobs_for(SMALL))):  # loads what there is to load, compilers too
        return
    sizes = sizes_for(quick=given.quick)
    blobs = blobs_for(sizes)
    before = resident_bytes()
    run = step_of(given.name, sizes, blobs)
    for _ in range(WARM):
        run()
    reset_peak()
    for _ in range(STEPS):
        run()
    print(peak_bytes() - before)


if __name__ == "__main__":
    main()
