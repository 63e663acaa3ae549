"""Small models that train, their batches, and what one process makes of the shares of several ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tazza.distributed.buckets import backward_span, gradients_of, statistics_of
from tazza.distributed.data_parallel import Exchanging, data_parallel, draw_apart
from tazza.distributed.membership import Membership
from tazza.models import Model, adagrad, sgd
from tazza.models.listener import TrainingListener
from tazza.models.rate import rates_of
from tazza.models.training import Trainer, carried_blobs, seed_operators
from tazza.models.zoo import CLASSIFIERS, lenet_training
from tazza.models.zoo.dlrm import Dlrm
from tazza.nets import NetBase
from tazza.proto import NetDef
from tazza.tensor import Tensor, TensorSpec
from tazza.workspace import Workspace

Arrays = Mapping[str, NDArray[Any]]
BATCH = 12
"""Examples of a joint batch."""


@dataclass(frozen=True)
class Case:
    """A model, and the share that rank `rank` of `size` has of the batch of a step."""

    build: Callable[[], Model]
    share: Callable[[int, int, int], Arrays]


def _lenet() -> Model:
    model = Model("lenet")
    lenet_training(model, "data", "label")
    sgd(model, 0.01, momentum=0.9, weight_decay=5e-4)
    return model


def _normalized() -> Model:
    model = Model("normalized")
    x = model.conv("data", "conv", 1, 3, 5)
    x = model.spatial_bn(x, "bn", 3, is_test=False)
    x = model.max_pool(model.relu(x, x), "pool", 4, stride=4)
    scores = model.fc(x, "scores", 3 * 6 * 6, 10)
    model.net.add("SoftmaxWithLoss", [scores, "label"], ["softmax", "loss"])
    model.add_gradients(["loss"])
    sgd(model, 0.05, momentum=0.9)
    return model


def _clicks() -> Model:
    model = Dlrm((7, 11), numbers=3, width=4, bottom=(5,), top=(6,)).training()
    adagrad(model, 0.05)
    return model


def zoo_case(name: str, *, size: int, images: int = 4, **options: Any) -> Case:
    """Return a classifier of the zoo, for small pictures of three classes, so many in a joint batch."""
    chosen = CLASSIFIERS[name]

    def build() -> Model:
        model = chosen.training(accuracy=False, size=size, classes=3, **options)
        sgd(model, 0.01, momentum=0.9)
        return model

    def share(step: int, rank: int, ranks: int) -> Arrays:
        random = np.random.default_rng(step)
        pictures = random.normal(size=chosen.input_shape(images, size=size)).astype(np.float32)
        part = slice(rank * images // ranks, (rank + 1) * images // ranks)
        return {"data": pictures[part], "label": random.integers(0, 3, images).astype(np.int32)[part]}

    return Case(build, share)


def _images(step: int, rank: int, size: int) -> Arrays:
    random = np.random.default_rng(step)
    images = random.normal(size=(BATCH, 1, 28, 28)).astype(np.float32)
    labels = random.integers(0, 10, BATCH).astype(np.int32)
    part = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    return {"data": images[part], "label": labels[part]}


def _bags(step: int, rank: int, size: int) -> Arrays:
    random = np.random.default_rng(step)
    part = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
    found: dict[str, NDArray[Any]] = {
        "dense": random.normal(size=(BATCH, 3)).astype(np.float32)[part],
        "label": random.integers(0, 2, (BATCH, 1)).astype(np.float32)[part],
    }
    for table, rows in enumerate((7, 11)):
        lengths = random.integers(0, 4, BATCH).astype(np.int32)
        indices = np.asarray(random.integers(0, rows, int(lengths.sum())), np.int64)
        start = lengths[: part.start].sum()
        found[f"lengths_{table}"] = lengths[part]
        found[f"indices_{table}"] = indices[start : start + lengths[part].sum()]
    return found


CASES = {"lenet": Case(_lenet, _images), "normalized": Case(_normalized, _images), "clicks": Case(_clicks, _bags)}

WHOLE = {"resnet50": zoo_case("resnet50", size=64, images=16)}
"""As large as they are published, but for the pictures: too slow for a test."""


STEPS = 3


@dataclass(frozen=True)
class Trained:
    """The losses of some steps, and the parameters behind them."""

    losses: list[float]
    parameters: dict[str, NDArray[Any]]


def seeded(model: Model) -> Model:
    """Seed the operators that draw."""
    seed_operators(model.init_net.proto, 1)
    seed_operators(model.net.proto, 2)
    return model


def train_rank(
    case: Case,
    membership: Membership,
    *,
    net_type: str = "simple",
    steps: int = STEPS,
    exchanging: Exchanging | None = None,
    listener: TrainingListener | None = None,
) -> Trained:
    """Train as one rank; those above 0 begin with other parameters, which they lose."""
    model = seeded(case.build())
    for op in model.init_net.proto.op if membership.rank else ():
        op.device_option.random_seed += 100
    data_parallel(model, membership, exchanging)
    net = model.net.proto
    net.type, net.num_workers = net_type, 2
    net.external_output.extend(["loss", *rates_of(net)])
    workspace = Workspace()
    losses: list[float] = []
    fed = case.share(0, membership.rank, membership.size)
    for name, values in fed.items():
        workspace.feed(name, values)
    with Trainer(model.init_net.proto, net, workspace, accuracy=None, fed=fed.keys()) as trainer:
        for step in range(steps):
            for name, values in case.share(step, membership.rank, membership.size).items():
                workspace.feed(name, values)
            done = trainer.step()
            losses.append(done.loss)
            if listener is not None:
                listener.stepped(trainer, done)
    return Trained(losses, {name: workspace.fetch(name) for name in model.parameters})


def train_alone(case: Case, ranks: int, *, steps: int = STEPS) -> Trained:
    """Train in one process: the shares of all ranks one after the other, gradients added in the order of the ranks.

    Whole gradients are added as they lie, so that parameters come to lie as in any training, and engines take the same
    ways: in rows, oneDNN may choose other kernels, whose sums are rounded otherwise.
    """
    model = seeded(case.build())
    whole = model.net.proto
    end = backward_span(whole).stop
    then = NetDef(name="then", op=whole.op[end:])
    gradients, kept = gradients_of(whole), [*statistics_of(whole, carried_blobs(whole)), "loss"]
    dense = [name for one in gradients if not one.rows for name in one.blobs]
    workspace = Workspace()
    workspace.run_net_once(model.init_net.proto)
    firsts: list[NetBase] = []
    losses: list[float] = []
    for step in range(steps):
        before = {name: workspace.fetch(name) for name in kept if workspace.has_blob(name)}
        brought: list[dict[str, Any]] = []
        lying: list[list[Lying]] = []
        for rank in range(ranks):
            for name, values in {**before, **case.share(step, rank, ranks)}.items():
                workspace.feed(name, values)
            if not step:
                first = NetDef(name=f"first {rank}", op=whole.op[:end])
                draw_apart(first, rank)
                firsts.append(workspace.create_net(first))
            firsts[rank].run()
            names = [*kept, *(name for one in gradients if one.rows for name in one.blobs)]
            brought.append({name: workspace.fetch(name) for name in names})
            lying.append([_lying(workspace.blob(name).get(Tensor)) for name in dense])
        rows = {one.blobs for one in gradients if one.rows}
        joined = {name: name == indices for indices, values in rows for name in (indices, values)}
        for name in brought[0]:
            workspace.feed(name, _together([one[name] for one in brought], joined.get(name)))
        for name, found in zip(dense, zip(*lying, strict=True), strict=True):
            _put_mean(workspace.blob(name).get(Tensor), found)
        losses.append(float(workspace.fetch("loss")))
        workspace.run_net_once(then)
    return Trained(losses, {name: workspace.fetch(name) for name in model.parameters})


Lying: TypeAlias = tuple[TensorSpec, NDArray[Any]]
"""A tensor, and its memory."""


def _lying(tensor: Tensor) -> Lying:
    return tensor.spec, tensor.span.copy()


def _put_mean(tensor: Tensor, found: Sequence[Lying]) -> None:
    """Let a tensor, which lies as all that were found, have their mean."""
    assert all(spec == tensor.spec for spec, _ in found)
    total = sum((memory for _, memory in found[1:]), start=found[0][1])
    tensor.span[...] = total * np.float32(1 / len(found))
    tensor.mark_written()


def _together(arrays: list[NDArray[Any]], is_index: bool | None) -> NDArray[Any]:
    """Return the mean of whole arrays; those of rows are joined, and values divided as well."""
    if is_index is None:
        total = sum(arrays[1:], start=arrays[0])
        return np.asarray(total * np.float32(1 / len(arrays)))
    joined = np.concatenate(arrays)
    return joined if is_index else joined * np.float32(1 / len(arrays))
