"""Nets whose blobs share names take at most what genuine Caffe2 made of them, and give the same bits.

`tests/data/memory.json` holds what `tools/record_memory.py` has measured there. What follows from operators and ranges
alone is the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import core, memonger, model_helper, optimizer, workspace
from tazza.errors import ArgumentError
from tazza.proto import NetDef
from tools import record_memory
from tools.record_memory import RUN, TEXTS, TRAINED, lenet, mlp, modules, names_of, shapes_of, text_net

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "memory.json").read_text(encoding="utf-8"))
LARGE = ("resnet", "shufflenet")
TYPES = ("simple", "dag", "async_scheduling", "parallel", "simple_refcount", "plan")


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


# -- what Caffe2 made --------------------------------------------------------------------------------------------------


def marked(names: Any, slow: Any = LARGE) -> list[Any]:
    """Return names of cases, those of large nets as slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] * any(one in name for one in slow)) for name in names]


@pytest.mark.slow
def test_the_nets_are_those_of_caffe2() -> None:
    """In name scopes too."""
    assert record_memory.made_nets(modules()) == RECORDED["made_nets"]


@pytest.mark.parametrize("case", marked(RECORDED["nets"]))
def test_nets_take_at_most_what_they_took_there(case: str) -> None:
    """Where sizes are given, elements count; else blobs do. Shapes that Caffe2 did not know take nothing there."""
    found, there = record_memory.nets(modules(), {case})[case], RECORDED["nets"][case]
    sized = "sized" in case or case.split()[0] in memonger.AssignmentAlgorithm.__members__
    if sized:
        assert found["saved"] >= there["saved"]
        return
    for key in there.keys() - {"saved"}:
        assert found[key] <= there[key], key


@pytest.fixture(scope="module")
def exact() -> dict[str, Any]:
    return json.loads(json.dumps(record_memory.exact(modules())))


@pytest.mark.parametrize("case", RECORDED["exact"])
def test_ranges_assignments_and_edges_are_those_of_caffe2(case: str, exact: dict[str, Any]) -> None:
    assert exact[case] == RECORDED["exact"][case]


def test_the_second_algorithm_takes_at_most_what_it_took_there() -> None:
    found = record_memory.by_programming(modules())
    assert all(found[seed] <= most for seed, most in RECORDED["by_programming"].items())


def test_the_same_nets_are_alike() -> None:
    assert record_memory.alike(modules()) == RECORDED["alike"]


def test_nets_are_estimated_to_take_the_same() -> None:
    assert record_memory.footprints(modules()) == RECORDED["footprints"]


# -- the same bits -----------------------------------------------------------------------------------------------------


def parameters_of(init: NetDef) -> dict[str, Any]:
    """Return what an init net with seeds fills."""
    workspace.ResetWorkspace()
    seeded = NetDef()
    seeded.CopyFrom(init)
    for number, op in enumerate(seeded.op):
        op.device_option.random_seed = number + 1
    workspace.RunNetOnce(seeded)
    return {str(name): workspace.FetchBlob(name) for name in workspace.Blobs()}


def run(
    parameters: dict[str, Any], net: NetDef, feed: Callable[[], None], kind: str, wanted: list[str]
) -> dict[str, bytes]:
    """Return the bits of blobs after two runs of a net as one of a type."""
    workspace.ResetWorkspace()
    for name, value in parameters.items():
        workspace.FeedBlob(name, value)
    made = NetDef()
    made.CopyFrom(net)
    made.name, made.type, made.num_workers = "n", kind, 2
    made.external_output.extend(name for name in wanted if name not in made.external_output)
    feed()
    workspace.CreateNet(made)
    workspace.RunNet("n", 2)
    found = {name: workspace.FetchBlob(name).tobytes() for name in wanted}
    workspace.C.delete_net("n")
    return found


def feeder(inputs: dict[str, Any]) -> Callable[[], None]:
    """Return what feeds inputs of these shapes."""

    def feed() -> None:
        draw = np.random.default_rng(3)
        for name, listed in inputs.items():
            shape = tuple(map(int, listed))
            if "label" in name:
                workspace.FeedBlob(name, draw.integers(0, 3, shape).astype(np.int32))
            elif name == "seq_lengths":
                workspace.FeedBlob(name, np.full(shape, 5, np.int32))
            else:
                workspace.FeedBlob(name, draw.standard_normal(shape).astype(np.float32))

    return feed


SMALL: dict[str, Callable[[Any], Any]] = {
    **{name: TRAINED[name] for name in ("mlp", "tree", "lenet", "lstm")},
    "resnet": lambda m: record_memory.image_net(m, m.resnet.create_resnet50, True, 64),
    "shufflenet": lambda m: record_memory.image_net(m, m.shufflenet.create_shufflenet, True, 224),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", marked(SMALL, (*LARGE, "tree", "lenet", "lstm")))
def test_gradients_that_share_names_are_the_same(name: str) -> None:
    """Losses and gradients of parameters, to the last bit, by every net type and with all options."""
    m = modules()
    model, losses, inputs = SMALL[name](m)
    net, feed, scope = model.net.Proto(), feeder(inputs), losses[0].rpartition("loss")[0]
    gradients = sorted(map(str, model.param_to_grad.values()))
    wanted = [*losses, *gradients]
    shapes = shapes_of(m, model, inputs)
    made = [
        memonger.share_grad_blobs(
            model.net, losses, set(gradients), scope, share_activations=activations, blob_shapes=known
        )
        for activations in (False, True)
        for known in (None, shapes)
    ]
    parameters = parameters_of(model.param_init_net.Proto())
    for kind in ("dag",) if name in LARGE else TYPES:
        expected = run(parameters, net, feed, kind, wanted)
        for number, one in enumerate(made[::3] if name in LARGE else made):
            assert len(names_of(one)) < len(names_of(net))
            assert run(parameters, one, feed, kind, wanted) == expected, (kind, number)


@pytest.mark.parametrize("name", marked(RUN, (*LARGE, "lenet")))
def test_nets_without_gradients_give_the_same(name: str) -> None:
    """What they end with, to the last bit: in parallel, in order, and in another order."""
    m = modules()
    create = {"resnet": m.resnet.create_resnet50, "shufflenet": m.shufflenet.create_shufflenet}
    if name in create:
        model, losses, inputs = record_memory.image_net(m, create[name], False, 64 if name == "resnet" else 224)
    else:
        model, losses, inputs = lenet(m, train=False)
    net = model.net.Proto()
    data = next(blob for blob in inputs if blob.endswith("data"))
    last, feed = net.op[-1].output[0], feeder({data: inputs[data]})
    static = {*net.external_input, last}
    sizes = {blob: record_memory.count(shape) for blob, shape in shapes_of(m, model, {data: inputs[data]}).items()}
    made = [
        memonger.optimize_inference_for_dag(model.net, [data], losses[0].rpartition("loss")[0]),
        memonger.optimize_inference_fast(net, static),
        *(memonger.optimize_interference(net, static, algo=algo).net for algo in memonger.AssignmentAlgorithm),
        memonger.optimize_interference(
            net, static, memonger.topological_sort_traversal_longest_path, blob_sizes=sizes
        ).net,
        memonger.release_blobs_when_used(net, {last}),
    ]
    parameters = parameters_of(model.param_init_net.Proto())
    for kind in ("dag",) if name in LARGE else TYPES:
        expected = run(parameters, net, feed, kind, [last])
        for number, one in enumerate(made):
            assert run(parameters, one, feed, kind, [last]) == expected, (kind, number)


@pytest.mark.slow
@pytest.mark.parametrize("build", [optimizer.build_sgd, optimizer.build_adam])
@pytest.mark.parametrize("activations", [False, True])
def test_training_learns_the_same(build: Any, activations: bool) -> None:
    """Five steps of LeNet, as its net is and with shared names, as simple and as parallel net."""
    learned: list[dict[str, bytes]] = []
    for shares in (False, True):
        model, losses, inputs = lenet(modules())
        build(model, base_learning_rate=0.01)
        net = model.net.Proto()
        if shares:
            before = len(names_of(net))
            model.net._net = net = memonger.share_grad_blobs(
                model.net, losses, set(model.param_to_grad.values()), "", share_activations=activations
            )
            assert len(names_of(net)) < before
        for kind in ("simple", "parallel"):
            workspace.ResetWorkspace()
            for number, op in enumerate(model.param_init_net.Proto().op):
                op.device_option.random_seed = number + 1
            workspace.RunNetOnce(model.param_init_net)
            feeder(inputs)()
            net.type, net.num_workers = kind, 2
            workspace.CreateNet(model.net, overwrite=True)
            workspace.RunNet(net.name, 5)
            learned.append({str(name): workspace.FetchBlob(str(name)).tobytes() for name in model.params})
    assert all(one == learned[0] for one in learned)


PROGRAM = """
import hashlib
from tools.record_memory import *
m = modules()
for make in (mlp, tree, lenet):
    model, losses, inputs = make(m)
    shapes = shapes_of(m, model, inputs)
    for options in ({}, {"share_activations": True}, {"blob_shapes": shapes}):
        made = m.memonger.share_grad_blobs(model.net, losses, set(model.param_to_grad.values()), "", **options)
        print(hashlib.md5(made.SerializeToString(deterministic=True)).hexdigest())
net = lenet(m, False)[0].net
print([(op.type, *op.input, *op.output) for op in m.memonger.optimize_inference_for_dag(net, ["data"], "").op])
print([(op.type, *op.input, *op.output) for op in m.memonger.release_blobs_when_used(net.Proto(), set()).op])
print(m.memonger.optimize_interference(net.Proto(), net.Proto().external_input).assignments)
"""


@pytest.mark.slow
def test_nets_do_not_hang_on_hashes() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(said) == 1


# -- what is asked of the functions ------------------------------------------------------------------------------------


def test_blobs_keep_out_where_that_is_asked() -> None:
    """Losses, gradients of parameters, blobs of other scopes, and those that are said."""
    model, losses, _ = mlp(modules())
    gradients = set(model.param_to_grad.values())
    made = memonger.share_grad_blobs(model.net, losses, gradients, "s/", {"s/fc1_grad"}, share_activations=True)
    kept = {"s/loss", "s/fc1_grad", *map(str, gradients)}
    for old, new in zip(model.net.Proto().op, made.op, strict=True):
        for name, other in zip([*old.input, *old.output], [*new.input, *new.output], strict=True):
            assert name == other or name not in kept
    assert memonger.share_grad_blobs(model.net, losses, gradients, "elsewhere/") == model.net.Proto()
    assert memonger.share_grad_blobs(model.net, ["nobody"], gradients, "s/") == model.net.Proto()


def test_gradients_of_rows_are_taken_apart() -> None:
    """The indices and values of a gradient that is given by rows keep out as others do."""
    m = model_helper.ModelHelper("rows")
    m.net.Gather(["table", "i"], "rows")
    m.net.FC(["rows", "w", "b"], "y")
    m.net.AveragedLoss("y", "loss")
    gradients = m.net.AddGradientOperators(["loss"])
    rows = gradients["table"]
    assert isinstance(rows, core.GradientSlice)
    made = memonger.share_grad_blobs(m.net, ["loss"], {rows, gradients["w"], gradients["b"]}, "")
    assert {str(rows.values), str(gradients["w"]), str(gradients["b"])} <= set(names_of(made))


def test_a_net_with_gradients_is_none_for_inference() -> None:
    model, _, _ = mlp(modules())
    with pytest.raises(AssertionError, match="is a gradient operator"):
        memonger.optimize_inference_for_dag(model.net, ["s/data"])


def test_a_net_that_does_not_run_in_order_stays_as_it_is() -> None:
    net = text_net(modules(), *TEXTS["chain"]).Proto()
    net.type = "dag"
    assert memonger.optimize_inference_fast(net, []) == net


def test_outputs_that_nobody_reads_can_be_fetched() -> None:
    """Caffe2 gave the last output of such a net the name of another blob."""
    net = text_net(modules(), *TEXTS["chain"])
    for made in (
        memonger.optimize_inference_for_dag(net, ["x"]),
        memonger.optimize_inference_fast(net.Proto(), []),
        memonger.optimize_interference(net.Proto(), []).net,
    ):
        assert made.op[0].input == ["x"]
        assert made.op[-1].output == ["e"]


def test_an_order_that_cannot_be_is_refused() -> None:
    net = text_net(modules(), *TEXTS["chain"]).Proto()
    with pytest.raises(ArgumentError, match="comes before it"):
        memonger.optimize_interference(net, [], ordering_function=lambda graph: [0, 2, 1, 3, 4])
    with pytest.raises(ArgumentError, match="asked for 5"):
        memonger.optimize_interference(net, [], ordering_function=lambda graph: list(graph)[:3])


def test_the_graph_of_operators_can_be_walked() -> None:
    graph = memonger.compute_interference_graph(text_net(modules(), *TEXTS["two inputs"]).Proto().op)
    assert (len(graph), graph.successors(2), graph.predecessors(6)) == (9, [6], [2, 5])
    assert list(graph.nodes()) == list(graph) == list(range(9))
    assert [node["op"].type for _, node in graph.nodes(data=True)] == [graph.nodes[i]["op"].type for i in graph]


def test_bytes_are_those_in_the_workspace() -> None:
    workspace.FeedBlob("a", np.zeros((3, 4), np.float32))
    workspace.FeedBlob("x", np.zeros(5, np.int64))
    workspace.FeedBlob("text", "text")
    assert [memonger.blob_nbytes(name) for name in ("a", "x", "text", "nobody")] == [48, 40, 0, 0]
    assert memonger.collect_blob_sizes(text_net(modules(), "a = Relu(x)").Proto()) == {"x": 40, "a": 48}
    life = memonger.LiveRange(0, 1, None)
    assert memonger.compute_statistics([[("a", life), ("x", life)]]) == memonger.Statistics(88, 48)


def test_assignments_are_checked() -> None:
    one, other = (("a", memonger.LiveRange(0, 2, 1)), ("b", memonger.LiveRange(1, 3, 1)))
    memonger.verify_assignments([[one], [other]])
    with pytest.raises(AssertionError, match="a still lives where b begins"):
        memonger.verify_assignments([[one, other]])
    with pytest.raises(ArgumentError, match="AssignmentAlgorithm"):
        memonger.compute_assignments({}, [], "greedy")  # pyright: ignore[reportArgumentType]
    assert memonger.get_memory_usage([[one], [other]]) == 2
    assert not memonger.is_compatible(memonger.LiveRange(5, 6, 1), [one], ["a"])
    counter = [0]
    assert memonger.compute_assignments_dp([one], None, counter) == [[one]]
    assert counter == [1]


@pytest.mark.slow
def test_recurrent_operators_name_their_blobs_anew() -> None:
    model, _, _ = record_memory.lstm(modules())
    net = model.net.Proto()
    memonger.apply_assignments(net, {"lstm/i2h": "other"})
    for op in net.op:
        assert "lstm/i2h" not in {*op.input, *op.output}
        assert b"lstm/i2h" not in {text for argument in op.arg for text in argument.strings}
    workspace.RunNetOnce(model.param_init_net)
    feeder(
        {
            "seq_lengths": [4],
            "labels": [5],
            **{f"{kind}_init_{i}": [1, 4, 10] for kind in ("hidden", "cell") for i in (0, 1)},
        }
    )()
    workspace.RunNetOnce(model.net)
