"""Time steps of ranks that learn together beside those of ranks by themselves, and what is exchanged beside both.

mpiexec -n 2 python -m benchmarks.machines.steps [NET] [IMAGES] [ROUNDS]

Each rank has one thread, where `OMP_NUM_THREADS=1` says so. In turns, all ranks run a step of the net that is made
parallel, a step of the plain one on as many images, and the bare reductions of as many bytes as the buckets have; the
least of each counts. Two ratios tell how much of the communication is hidden: the parallel step to the plain one
(ResNet-50 at 224 with 16 images a rank: at most 1.06), and to the plain one and the reductions, one behind the other
(LeNet with 64: at most 1.10).
"""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.machines.__main__ import least_s
from tazza.distributed.buckets import gradients_of, in_buckets
from tazza.distributed.data_parallel import BUCKET_BYTES, data_parallel
from tazza.distributed.membership import Membership, mpi_membership
from tazza.distributed.mpi import mpi
from tazza.models import Model, sgd
from tazza.models.training import Trainer, seed_operators
from tazza.models.zoo import CLASSIFIERS
from tazza.tensor import Tensor
from tazza.workspace import Workspace

WARM_UP = 2
"""Steps in which kernels are made."""


def made(net: str, images: int, membership: Membership | None) -> tuple[Model, Trainer]:
    """Return a net that trains on images of its published size, and its parallel form where there is a membership."""
    chosen = CLASSIFIERS[net]
    model = chosen.training(accuracy=False)
    sgd(model, 1e-4, momentum=0.9)
    for proto in (model.init_net.proto, model.net.proto):
        seed_operators(proto, 1)
    if membership is not None:
        data_parallel(model, membership)
    workspace, random = Workspace(), np.random.default_rng(1)
    workspace.feed("data", random.normal(size=chosen.input_shape(images)).astype(np.float32))
    workspace.feed("label", random.integers(0, chosen.classes, images).astype(np.int32))
    return model, Trainer(model.init_net.proto, model.net.proto, workspace, accuracy=None, fed=("data", "label"))


def bucket_sizes(model: Model, workspace: Workspace) -> list[int]:
    """Return the bytes of the buckets in which the gradients of a plain model would go around."""
    gradients = gradients_of(model.net.proto)
    sizes = {name: workspace.blob(name).get(Tensor).nbytes for one in gradients for name in one.blobs}
    return [sum(sizes[name] for name in one.blobs) for one in in_buckets(gradients, sizes, BUCKET_BYTES)]


def main(net: str, images: int = 16, rounds: int = 8) -> None:
    """Print the table, on rank 0."""
    own, MPI = mpi_membership(), mpi()
    plain_model, plain = made(net, images, None)
    _, parallel = made(net, images, own)
    for _ in range(WARM_UP):
        plain.step()
        parallel.step()
    pieces = [np.zeros(nbytes // 4, np.float32) for nbytes in bucket_sizes(plain_model, plain.workspace)]

    def reduce() -> None:
        for piece in pieces:
            MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, piece, MPI.SUM)

    found = least_s({"together": parallel.step, "by itself": plain.step, "reductions": reduce}, rounds)
    if own.leads:
        times = ", ".join(f"{name} {took_s * 1e3:.2f} ms" for name, took_s in found.items())
        alone_s = found["by itself"]
        print(f"{net}, {own.size} ranks, {images} images each, {sum(map(len, pieces)) * 4} bytes: {times}")
        print(
            f"together / by itself {found['together'] / alone_s:.3f}, together / (by itself + reductions)"
            f" {found['together'] / (alone_s + found['reductions']):.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "resnet50", *map(int, sys.argv[2:]))
