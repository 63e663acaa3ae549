"""Models on several devices: nets are those of Caffe2; replicas learn as one; all begin, and go on, alike."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import core, data_parallel_model, model_helper, muji, optimizer, workspace
from tazza import Workspace
from tazza.errors import ArgumentError, TazzaError, UnavailableError
from tools.parallel_cases import (
    adagrad,
    cases,
    deep,
    dense,
    in_blocks,
    normalized,
    nothing,
    parallel,
    ranks,
    rows,
    sgd,
    trainings,
    update,
    with_momentum,
)
from tools.record_parallel_nets import Modules, net_case, training_case

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "parallel_nets.json").read_text(encoding="utf-8")
)
Feeds = dict[str, Any]
M = Modules()


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


@pytest.mark.parametrize("case", RECORDED["nets"])
def test_the_nets_are_those_of_caffe2(case: str) -> None:
    assert net_case(M, case) == RECORDED["nets"][case]


@pytest.mark.slow
@pytest.mark.parametrize("case", RECORDED["numbers"])
def test_what_is_learned_is_what_caffe2_learned(case: str) -> None:
    found, wanted = training_case(M, case), RECORDED["numbers"][case]
    assert found.keys() == wanted.keys()
    for name, numbers in wanted.items():
        np.testing.assert_allclose(found[name], numbers, rtol=1e-5, atol=2e-6, err_msg=name)


def test_every_case_is_recorded() -> None:
    assert cases().keys() == RECORDED["nets"].keys()
    assert trainings().keys() == RECORDED["numbers"].keys()


# -- replicas learn as one ---------------------------------------------------------------------------------------------


def batches(steps: int, layers: Any) -> list[Feeds]:
    """Return batches of twelve for layers."""
    random = np.random.default_rng(7)
    found: list[Feeds] = []
    for _ in range(steps):
        if layers is rows:
            found.append({"ids": random.integers(0, 10, 12).astype(np.int32)})
        else:
            shape = {dense: (12, 3), deep: (12, 4), normalized: (12, 2, 5, 3)}[layers]
            found.append({"data": random.random(shape, np.float32), "label": random.random(12, np.float32)})
    return found


def feed_parts(model: Any, batch: Feeds, put: Callable[[str, Any], object] = workspace.FeedBlob) -> None:
    """Feed each device of a model its part of a batch."""
    for name, whole in batch.items():
        for part, device in zip(np.split(whole, len(model._devices)), model._devices, strict=True):
            put(f"cpu_{device}/{name}", part)


def seed(model: Any) -> None:
    """Let initial values be the same for all models."""
    for op in model.param_init_net.Proto().op:
        if op.type in {"XavierFill", "UniformFill"}:
            op.device_option.random_seed = 3 + sum(map(ord, op.output[0].partition("/")[2]))


def learn(model: Any, feeds: list[Feeds]) -> dict[str, Any]:
    """Return the parameters of the first device behind the steps."""
    workspace.ResetWorkspace()
    feed_parts(model, feeds[0])
    seed(model)
    data_parallel_model.RunInitNet(model)
    for batch in feeds:
        feed_parts(model, batch)
        data_parallel_model.RunNet(model, 1)
    return parameters(model, model._devices[0])


def parameters(model: Any, device: int) -> dict[str, Any]:
    return {
        data_parallel_model.stripBlobName(param): workspace.FetchBlob(str(param))
        for param in model.GetAllParams(f"cpu_{device}/")
    }


def assert_close(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "how", "settings"),
    [
        (dense, update, {}),
        (dense, sgd, {"net_type": "simple"}),
        (deep, adagrad, {"net_type": "async_scheduling"}),
        (deep, sgd, {"shared_model": True}),
        (rows, sgd, {}),
        (rows, adagrad, {"shared_model": True}),
        (rows, adagrad, {"net_type": "simple"}),
        (normalized, update, {"combine_spatial_bn": True}),
        (normalized, sgd, {"combine_spatial_bn": True, "net_type": "simple", "order": "NCHW"}),
    ],
)
def test_replicas_on_parts_of_a_batch_learn_what_one_learns_on_all(layers: Any, how: Any, settings: Any) -> None:
    feeds = batches(4, layers)
    if settings.get("order") == "NCHW":
        feeds = [{"data": np.moveaxis(batch["data"], 3, 1)} for batch in feeds]
    wanted = learn(parallel(M, layers, how, devices=[0], **settings), feeds)
    for devices in ([0, 1], [2, 0, 1], [0, 1, 2, 3]):
        model = parallel(M, layers, how, devices=devices, **settings)
        assert_close(learn(model, feeds), wanted)
        if not settings.get("shared_model"):
            first, *others = (parameters(model, device) for device in devices)
            for other in others:  # to the last bit
                assert all(np.array_equal(first[name], other[name]) for name in first)


@pytest.mark.slow
@pytest.mark.parametrize(("layers", "how", "count"), [(dense, update, 2), (deep, sgd, 3), (deep, adagrad, 1)])
def test_ranks_in_threads_learn_what_one_learns_on_all(layers: Any, how: Any, count: int) -> None:
    """Each has a workspace of its own, in which it runs the nets that `RunInitNet` and `RunNet` would run."""
    feeds = batches(3, layers)
    wanted = learn(parallel(M, layers, how, devices=[0, 1]), feeds)
    models = [parallel(M, layers, how, rendezvous=ranks(shard_id=rank, num_shards=count)) for rank in range(count)]
    found = all_ranks(models, feeds)
    for one in found:
        assert_close(one, wanted)
        assert all(np.array_equal(found[0][name], one[name]) for name in wanted)


def all_ranks(models: list[Any], feeds: list[Feeds]) -> list[dict[str, Any]]:
    """Return the parameters of each rank behind the steps."""
    found: list[dict[str, Any]] = [{} for _ in models]

    def run(rank: int) -> None:
        found[rank] = run_rank(models[rank], rank, len(models), feeds)

    threads = [threading.Thread(target=run, args=[rank]) for rank in range(len(models))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def run_rank(model: Any, rank: int, count: int, feeds: list[Feeds]) -> dict[str, Any]:
    home = Workspace()
    seed(model)
    made = core.CreateOperator("FileStoreHandlerCreate", [], ["store"], prefix=f"ranks of {model.net.Name()[:4]}")
    home.run_operator(made)
    steps = [{name: np.split(whole, count)[rank] for name, whole in batch.items()} for batch in feeds]
    feed_parts(model, steps[0], home.feed)
    for net in model._data_parallel_model_init_nets:
        home.run_net_once(net.Proto())
    noted: list[Any] = model._data_parallel_model_nets
    nets: list[tuple[Any, int]] = [one if type(one) is tuple else (one, 1) for one in noted]
    for net, _ in nets:
        home.create_net(net.Proto())
    for batch in steps:
        feed_parts(model, batch, home.feed)
        for net, times in nets:
            home.run_net(net.Proto().name, times)
    return {data_parallel_model.stripBlobName(one): home.fetch(str(one)) for one in model.GetAllParams("cpu_0/")}


@pytest.mark.slow
@pytest.mark.parametrize("nesterov", [False, True])
def test_blocks_of_ranks_are_those_of_as_many_devices(nesterov: bool) -> None:
    feeds = batches(3, dense)
    wanted = learn(in_blocks(M, devices=[0, 1, 2, 3], nesterov=nesterov), feeds)
    models = [in_blocks(M, rendezvous=ranks(shard_id=rank), nesterov=nesterov) for rank in range(2)]
    for found in all_ranks(models, feeds):
        assert_close(found, wanted)


def test_ranks_whose_blobs_differ_are_told(monkeypatch: Any) -> None:
    """The sums of all three ranks, which are threads elsewhere, are fed."""
    model = parallel(M, dense, sgd, rendezvous=ranks(num_shards=3))
    monkeypatch.setattr(workspace, "RunNetOnce", str)
    workspace.FeedBlob("cpu_0/fc_w_gather", np.array([4, 5, 4], np.float32))
    compare: Any = vars(data_parallel_model)["_RunComparison"]
    with pytest.raises(AssertionError, match=r"cpu_0/fc_w differs .* \[4.0, 5.0, 4.0\]"):
        compare(model, "cpu_0/fc_w")


# -- blocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize(("devices", "master"), [([0, 1], None), ([0, 1, 2], 1), ([3, 4], 4), ([5], None)])
def test_blocks_end_with_the_filtered_mean(devices: list[int], master: int | None, nesterov: bool) -> None:
    """`v = m v + lr (mean - g)`, `g += v`; Nesterov's form takes back `m (v - v of before)`."""
    momentum, rate = 0.4, 0.7
    settings = {"block_momentum": momentum, "block_learning_rate": rate, "nesterov": nesterov}
    model = in_blocks(M, with_momentum, devices=devices, master_device=master, warmup_iterations=2, **settings)
    feeds = batches(4, deep)
    feed_parts(model, {"data": feeds[0]["data"][:, :3], "label": feeds[0]["label"]})
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunWarmup(model)
    held = values(model, devices)
    assert all(np.array_equal(held[devices[0]], one) for one in held.values())
    g, v = held[devices[0]], np.zeros_like(held[devices[0]])
    for batch in feeds:
        feed_parts(model, {"data": batch["data"][:, :3], "label": batch["label"]})
        workspace.RunNet(model.net, 3)
        mean = sum(values(model, devices).values()) / len(devices)
        before, v = v, momentum * v + rate * (mean - g)
        g = g + v - (momentum * (v - before) if nesterov else 0)
        workspace.RunNet(model._global_model_param_updates_net)
        for one in values(model, devices).values():
            np.testing.assert_allclose(one, g, rtol=1e-5, atol=1e-6)


def values(model: Any, devices: list[int]) -> dict[int, Any]:
    return {device: np.concatenate([x.ravel() for x in parameters(model, device).values()]) for device in devices}


# -- checkpoints, predictors, nets of one device -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"shared_model": True}, {"devices": [1, 0, 2], "net_type": "simple"}])
def test_a_training_goes_on_from_a_checkpoint_as_if_it_never_ended(settings: Any, tmp_path: Path) -> None:
    feeds = batches(6, deep)
    whole = learn(parallel(M, deep, sgd, **settings), feeds)
    model = parallel(M, deep, sgd, **settings)
    learn(model, feeds[:3])
    names = sorted(map(str, data_parallel_model.GetCheckpointParams(model)))
    file: dict[str, Any] = {"db": str(tmp_path / "file"), "db_type": "minidb", "absolute_path": 1}
    workspace.RunOperatorOnce(core.CreateOperator("Save", names, [], **file))
    workspace.ResetWorkspace()
    feed_parts(model, feeds[3])
    data_parallel_model.RunInitNet(model)
    workspace.RunOperatorOnce(core.CreateOperator("Load", [], names, **file))
    data_parallel_model.FinalizeAfterCheckpoint(model)
    for batch in feeds[3:]:
        feed_parts(model, batch)
        data_parallel_model.RunNet(model, 1)
    for device in model._devices[: 1 if settings.get("shared_model") else 3]:
        found = parameters(model, device)
        assert all(np.array_equal(found[name], whole[name]) for name in whole)


def test_a_model_that_predicts_runs_on_all_devices_and_is_extracted() -> None:
    model = parallel(M, dense)
    batch = batches(1, dense)[0]
    feed_parts(model, batch)
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, 1)
    net, needed = data_parallel_model.ExtractPredictorNet(model, ["data"], ["flat"], core.DeviceOption(0))
    assert set(needed) == {"cpu_0/fc_w", "cpu_0/fc_b"}
    workspace.FeedBlob("data", batch["data"][:6])
    workspace.RunNetOnce(net)
    assert np.array_equal(workspace.FetchBlob("flat"), workspace.FetchBlob("cpu_0/flat"))


@pytest.mark.slow
def test_blobs_are_given_to_all_devices_in_each_step() -> None:
    model = parallel(M, dense, update, devices=[0, 1, 2])
    model.param_init_net.ConstantFill([], "cpu_0/number", shape=[1], value=4.0)
    data_parallel_model.AddBlobSync(model, ["number", "cpu_0/flat"])
    feed_parts(model, batches(1, dense)[0])
    data_parallel_model.RunInitNet(model)
    data_parallel_model.RunNet(model, 1)
    assert [workspace.FetchBlob(f"cpu_{device}/number").tolist() for device in range(3)] == [[4.0]] * 3
    assert np.array_equal(workspace.FetchBlob("cpu_2/flat"), workspace.FetchBlob("cpu_0/flat"))


def test_a_net_that_is_brought_to_a_device_takes_the_nets_within_along() -> None:
    inner, net = core.Net("inner"), core.Net("outer")
    inner.Copy("kept", "found")
    net.If(["condition"], ["found"], then_net=inner.Proto())
    made = data_parallel_model.ConvertNetForDevice(net, core.DeviceOption(0, 3)).Proto()
    assert made.name == net.Name()
    (argument,) = made.op[0].arg
    assert [*made.op[0].input, *argument.n.op[0].input, *argument.n.op[0].output] == [
        "cpu_3/condition",
        "cpu_3/kept",
        "cpu_3/found",
    ]


# -- sums of GPUs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "count"),
    [
        *((muji.Allreduce2, 2), (muji.Allreduce4, 4), (muji.Allreduce4Group2, 4), (muji.Allreduce8, 8)),
        *((muji.AllreduceFallback, 5), (muji.AllreduceFallback, 1), (muji.Allreduce, 3)),
    ],
)
def test_every_gpu_gets_the_sum(way: Any, count: int) -> None:
    """The nets run here without the options that they have."""
    net = core.Net("sum")
    names = [f"b{number}" for number in range(count)]
    sums = way(net, names, "_sum", list(range(count)))
    for number, name in enumerate(names):
        workspace.FeedBlob(name, np.full((2, 3), 2.0**number, np.float32))
    for op in net.Proto().op:
        op.ClearField("device_option")
    workspace.RunNetOnce(net)
    assert [workspace.FetchBlob(str(one)).tolist() for one in sums] == [[[2.0**count - 1] * 3] * 2] * count


@pytest.mark.parametrize(("way", "count"), [(muji.Allreduce2, 3), (muji.Allreduce4, 2), (muji.AllreduceFallback, 0)])
def test_a_way_for_other_numbers_of_gpus_is_refused(way: Any, count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} blobs"):
        way(core.Net("sum"), ["b"] * count, "_sum", list(range(count)))
    with pytest.raises(ArgumentError, match="1 GPUs for 2 blobs"):
        muji.Allreduce(core.Net("sum"), ["a", "b"], gpu_indices=[0])


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.skipif(workspace.NumGpuDevices() > 0, reason="there is a GPU")
def test_gpus_that_are_not_there() -> None:
    """Nets can be built for them, as in Caffe2; running them says why they cannot."""
    model = model_helper.ModelHelper(name="m")
    with pytest.raises(UnavailableError, match="there is no GPU"):
        data_parallel_model.Parallelize_GPU(model, nothing, dense)
    model = parallel(M, dense, update, cpu_device=False)
    with pytest.raises(TazzaError, match="cuda:0"):
        data_parallel_model.RunInitNet(model)


def no_losses(model: Any, scale: float) -> None:
    """Forget the losses."""


def one_more(model: Any, scale: float) -> list[Any]:
    losses = dense(model, scale)
    if core.scope.CurrentNameScope() == "cpu_1/":
        model.AddParameter(model.param_init_net.ConstantFill([], "more", shape=[1]))
    return losses


def twice(model: Any, scale: float) -> list[Any]:
    losses = dense(model, scale)
    model.params.append(model.params[-1])
    return losses


def unlike(model: Any, scale: float) -> list[Any]:
    (model.Relu if core.scope.CurrentNameScope() == "cpu_1/" else model.Tanh)("data", "bent")
    return dense(model, scale)


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"devices": []}, ArgumentError, "different numbers, one at least"),
    ({"devices": [0, 0]}, ArgumentError, "different numbers, one at least"),
    ({"devices": "01"}, TypeError, "integer"),
    ({"optimizer_builder_fun": optimizer.build_sgd}, AssertionError, "one way"),
    ({"optimize_gradient_memory": True, "dynamic_memory_management": True}, AssertionError, "shared, or freed"),
    ({"shared_model": True, "cpu_device": False}, AssertionError, "devices of the CPU"),
    ({"rendezvous": {"num_shards": 2}}, ArgumentError, "no engine, kv_handler, shard_id"),
    ({"rendezvous": ranks(), "max_concurrent_distributed_ops": 0}, ArgumentError, "one at least"),
    ({"layers": no_losses}, AssertionError, "a list of losses"),
    ({"layers": one_more}, ArgumentError, r"'more' is there on the devices \[1\], and not on all of \[0, 1\]"),
    ({"layers": twice}, ArgumentError, "twice: cpu_0/fc_b, cpu_1/fc_b"),
    ({"layers": unlike, "combine_spatial_bn": True}, ArgumentError, "Tanh and Relu"),
    ({"layers": rows, "rendezvous": ranks()}, ArgumentError, "rows only, which are not brought to other ranks"),
]


@pytest.mark.parametrize(("settings", "kind", "text"), REFUSED)
def test_what_cannot_be_is_refused(settings: dict[str, Any], kind: type[Exception], text: str) -> None:
    given = {"layers": dense, "how": update, **settings}
    with pytest.raises(kind, match=text):
        parallel(M, given.pop("layers"), given.pop("how"), **given)


def test_scopes_around_are_refused() -> None:
    with core.DeviceScope(core.DeviceOption(1)), pytest.raises(AssertionError, match="leave that of the GPU"):
        data_parallel_model.Parallelize_CPU(None, None, None)
    with core.NameScope("outer"), pytest.raises(ArgumentError, match="'outer/cpu_0/fc_w' is in the scope of no device"):
        parallel(M, dense, update)
    with pytest.raises(ArgumentError, match="none of the devices"):
        in_blocks(M, master_device=7)


@pytest.mark.parametrize("name", ["RunInitNet", "CreateNet", "RunWarmup", "RunNet"])
def test_models_of_no_device(name: str) -> None:
    model = model_helper.ModelHelper(name="plain")
    with pytest.raises(ArgumentError, match="Parallelize"):
        getattr(data_parallel_model, name)(*((model, 1) if name == "RunNet" else (model,)))
    with pytest.raises(ArgumentError, match="for which device"):
        data_parallel_model.ConvertNetForDevice(model.net)
    with pytest.raises(ArgumentError, match="no scope of a device"):
        data_parallel_model.stripBlobName("no scope")


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "calls"),
    [({"optimize_gradient_memory": True}, ["cpu_0/", "cpu_1/"]), ({"dynamic_memory_management": True}, ["kept"])],
)
def test_memonger_is_called_behind_the_updates(settings: Any, calls: list[str], monkeypatch: Any) -> None:
    memonger: Any = import_module("caffe2.python.memonger")
    told: list[str] = []

    def share(net: Any, losses: Any, grads: Any, scope: str, **more: Any) -> Any:
        assert [str(loss).startswith(scope) for loss in losses] == [True]
        assert {str(grad) for grad in grads} == {f"cpu_{d}/fc_{p}_grad" for d in (0, 1) for p in "wb"}
        told.append(scope)
        return net.Proto()

    def release(proto: Any, kept: set[str]) -> Any:
        assert kept == {"cpu_0/fc", "cpu_1/fc"}
        told.append("kept")
        return proto

    monkeypatch.setattr(memonger, "share_grad_blobs", share)
    monkeypatch.setattr(memonger, "release_blobs_when_used", release)
    model = parallel(M, dense, update, blobs_to_keep=["fc"], **settings)
    assert told == calls
    if "optimize_gradient_memory" in settings:
        data_parallel_model.OptimizeGradientMemory(model, {"data": [6, 3], "label": [6]}, ["flat_grad"], True)
        assert told == calls * 2


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"optimize_gradient_memory": True}, {"dynamic_memory_management": True}])
def test_less_memory_learns_the_same(settings: Any) -> None:
    feeds = batches(3, deep)
    wanted = learn(parallel(M, deep, sgd), feeds)
    found = learn(parallel(M, deep, sgd, **settings), feeds)
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_one_step_follows_the_other() -> None:
    """`RunNet(model, 4)` is four steps: the learning rate counts them."""
    model = parallel(M, dense, update)
    feed_parts(model, batches(1, dense)[0])
    data_parallel_model.RunInitNet(model)
    counts: list[int] = []
    for steps in (1, 4, 2):
        data_parallel_model.RunNet(model, steps)
        counts.append(int(workspace.FetchBlob("cpu_1/ITER")[0]))
    assert [after - before for before, after in pairwise([0, *counts])] == [1, 4, 2]
