"""Record what Caffe2's `memonger` makes of nets; it runs under either Python.

    PYTHON_OF_CAFFE2 -m tools.record_memory tests/data/memory.json

Caffe2 needs networkx for it, of its own time: later ones order operators otherwise (2.2 was taken).

Of nets whose blobs share names it is recorded how many blobs are left, and how many elements that saves: which blobs
share hangs on hashes there. What follows from operators and ranges alone is recorded as it is.
"""

from __future__ import annotations

import hashlib
import json
import logging
import random
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Callable  # noqa: UP035 -- Python 3.8

OLD = ("memonger", "core", "workspace", "model_helper", "brew", "cnn", "rnn_cell")


def modules() -> Any:
    """Return the modules under test."""
    found = {name: import_module("caffe2.python." + name) for name in OLD}
    found.update((name, import_module("caffe2.python.models." + name)) for name in ("resnet", "shufflenet"))
    return SimpleNamespace(**found)


def text_net(m: Any, *lines: str, outputs: Any = ()) -> Any:
    """Return a net of lines `a, b = Type(x, y)`; what it reads and nobody makes is external."""
    m.core.Net._net_names_used.clear()
    net = m.core.Net("text")
    for line in lines:
        left, right = line.split(" = ")
        op_type, inside = right.rstrip(")").split("(")
        op = m.core.CreateOperator(op_type, [name for name in inside.split(", ") if name], left.split(", "))
        net.Proto().op.extend([op])
    made = {name for op in net.Proto().op for name in op.output}
    read = {name for op in net.Proto().op for name in op.input}
    net.Proto().external_input.extend(sorted(read - made))
    net.Proto().external_output.extend(outputs)
    return net


# -- nets --------------------------------------------------------------------------------------------------------------


def mlp(m: Any) -> Any:
    """Return a model with gradients, in a name scope, its loss and the sizes of its inputs."""
    model = m.model_helper.ModelHelper("mlp")
    with m.core.NameScope("s"):
        blob: Any = "data"
        for number, (before, behind) in enumerate(((3, 5), (5, 7), (7, 4), (4, 6))):
            blob = m.brew.fc(model, blob, f"fc{number}", before, behind)
        blob.Relu([], blob).Softmax([], "pred").LabelCrossEntropy(["label"], ["xent"]).AveragedLoss([], "loss")
    model.AddGradientOperators(["s/loss"])
    return model, ["s/loss"], {"s/data": [2, 3], "s/label": [2]}


def tree(m: Any) -> Any:
    """Return a model with two losses and two branches."""
    model = m.model_helper.ModelHelper("tree")
    with m.core.NameScope("s"):
        one = m.brew.fc(model, "data", "one", 4, 4)
        two = m.brew.fc(model, one, "two", 4, 4)
        three = m.brew.fc(model, two, "three", 4, 4)
        beside = m.brew.fc(model, two, "beside", 4, 4)
        both = m.brew.sum(model, [three, beside], "both")
        both.Relu([], "relu").Softmax([], "pred1").LabelCrossEntropy(["label"], ["xent1"]).AveragedLoss([], "loss1")
        last = m.brew.fc(model, three, "last", 4, 4)
        last.Tanh([], "tanh").Softmax([], "pred2").LabelCrossEntropy(["label"], ["xent2"]).AveragedLoss([], "loss2")
    model.AddGradientOperators(["s/loss1", "s/loss2"])
    return model, ["s/loss1", "s/loss2"], {"s/data": [2, 4], "s/label": [2]}


def lenet(m: Any, train: bool = True) -> Any:
    """Return LeNet."""
    model = m.model_helper.ModelHelper("lenet", arg_scope={"order": "NCHW"})
    m.brew.conv(model, "data", "conv1", 1, 4, 5)
    m.brew.max_pool(model, "conv1", "pool1", kernel=2, stride=2)
    m.brew.conv(model, "pool1", "conv2", 4, 6, 5)
    m.brew.max_pool(model, "conv2", "pool2", kernel=2, stride=2)
    m.brew.fc(model, "pool2", "fc3", 6 * 4 * 4, 9)
    m.brew.relu(model, "fc3", "fc3")
    m.brew.fc(model, "fc3", "pred", 9, 10)
    m.brew.softmax(model, "pred", "softmax")
    if train:
        model.LabelCrossEntropy(["softmax", "label"], "xent")
        model.AveragedLoss("xent", "loss")
        model.AddGradientOperators(["loss"])
    return model, ["loss"], {"data": [2, 1, 28, 28], "label": [2]}


def image_net(m: Any, create: Callable[..., Any], train: bool, extent: int = 224) -> Any:
    """Return a net for images of the model zoo, in the scope of a device."""
    model = m.cnn.CNNModelHelper(order="NCHW", name="test")
    given: dict[str, Any] = {"num_input_channels": 3, "num_labels": 10}
    with m.core.NameScope("gpu_0"):
        data = model.net.AddExternalInput("gpu_0/data")
        if train:
            given["label"] = model.net.AddExternalInput("gpu_0/label")
        create(model, data, is_test=not train, **given)
    if train:
        model.AddGradientOperators(["gpu_0/loss"])
    return model, ["gpu_0/loss"], {"gpu_0/data": [2, 3, extent, extent], "gpu_0/label": [2]}


def lstm(m: Any) -> Any:
    """Return two layers of LSTM with gradients."""
    model = m.model_helper.ModelHelper("lstm")
    lengths, _ = model.net.AddExternalInputs("seq_lengths", "labels")
    states = [name for i in range(2) for name in (f"hidden_init_{i}", f"cell_init_{i}")]
    model.net.AddExternalInputs(*states)
    model.param_init_net.ConstantFill([], ["input"], shape=[5, 4, 10])
    cell = {"seq_lengths": lengths, "initial_states": states, "dim_in": 10, "dim_out": [10, 10], "scope": "lstm"}
    output = m.rnn_cell.LSTM(model, "input", drop_states=True, return_last_layer_only=True, forward_only=False, **cell)[
        0
    ]
    model.net.SoftmaxWithLoss([model.net.Flatten(output, "flat"), "labels"], ["softmax", "loss"])
    model.AddGradientOperators(["loss"])
    return model, ["loss"], {"seq_lengths": [4], "labels": [5], **{name: [1, 4, 10] for name in states}}


TRAINED: dict[str, Callable[[Any], Any]] = {
    "mlp": mlp,
    "tree": tree,
    "lenet": lenet,
    "lstm": lstm,
    "resnet": lambda m: image_net(m, m.resnet.create_resnet50, True),
    "shufflenet": lambda m: image_net(m, m.shufflenet.create_shufflenet, True),
}
RUN: dict[str, Callable[[Any], Any]] = {
    "lenet": lambda m: lenet(m, False),
    "resnet": lambda m: image_net(m, m.resnet.create_resnet50, False),
    "shufflenet": lambda m: image_net(m, m.shufflenet.create_shufflenet, False),
}
CHAIN = ("a = Relu(x)", "b = Relu(a)", "c = Relu(b)", "d = Relu(c)", "e = Relu(d)")
TEXTS: dict[str, tuple[str, ...]] = {
    "chain": CHAIN,
    "written twice": ("a = Relu(x)", "b = Relu(a)", "a = Relu(b)", "c = Relu(a)", "d = Relu(c)"),
    "in place": ("a = Relu(x)", "a = Relu(a)", "b = Relu(a)", "c = Relu(b)", "c = Relu(c)", "d = Relu(c)"),
    "unread": ("a = Relu(x)", "b = Relu(x)", "c = Relu(x)", "d = Relu(c)", "e = Relu(d)", "f = Relu(e)"),
    "two inputs": (
        *("a = Relu(x)", "b = Relu(a)", "c = Relu(b)", "p = Relu(y)", "q = Relu(p)", "r = Relu(q)"),
        *("s = Sum(c, r)", "u = Relu(s)", "v = Relu(u)"),
    ),
    "several outputs": (
        *("a, b = Split(x)", "c = Sum(a, b)", "d, e = Split(c)", "f = Sum(d, e)", "g, h = Split(f)", "i = Sum(g, h)"),
    ),
}


# -- what is measured --------------------------------------------------------------------------------------------------


def names_of(net: Any) -> list[str]:
    """Return the blobs that operators of a net name."""
    return sorted({name for op in net.op for name in [*op.input, *op.output]})


def shapes_of(m: Any, model: Any, inputs: dict[str, Any]) -> dict[str, list[int]]:
    """Return the shapes of a model's blobs; a gradient of which nothing is known has that of what it is one of."""
    kinds = {name: 2 if "label" in name or name == "seq_lengths" else 1 for name in inputs}
    nets = [model.param_init_net, model.net]
    found = dict(m.workspace.InferShapesAndTypes(nets, inputs, blob_types=kinds)[0])
    for name in names_of(model.net.Proto()):
        forward = name[: -len("_grad")]
        if name.endswith("_grad") and name not in found and forward in found:
            found[name] = found[forward]
    return found


def elements(sizes: dict[str, int], old: Any, new: Any) -> int:
    """Return how many elements all blobs of a net take, each as many as the largest that has its name."""
    largest: dict[str, int] = {}
    for before, behind in zip(old.op, new.op):  # noqa: B905 -- Python 3.8
        pairs = zip([*before.input, *before.output], [*behind.input, *behind.output])  # noqa: B905
        for name, other in pairs:
            largest[other] = max(largest.get(other, 0), sizes.get(name, 0))
    return sum(largest.values())


def count(shape: Any) -> int:
    """Return how many elements a shape has."""
    made = 1
    for extent in shape:
        made *= int(extent)
    return made


def measured(m: Any, net: Any, made: Any, shapes: Any) -> dict[str, int]:
    """Return how many blobs a net has left, and how many elements are saved."""
    sizes = {name: count(shape) for name, shape in shapes.items()}
    saved = elements(sizes, net, net) - elements(sizes, net, made)
    return {"blobs": len(names_of(made)), "saved": saved}


def shared_gradients(m: Any, name: str, **options: Any) -> dict[str, int]:
    """Return what is measured of a training net whose gradients share names."""
    model, losses, inputs = TRAINED[name](m)
    shapes = shapes_of(m, model, inputs)
    if options.pop("sized", False):
        options["blob_shapes"] = shapes
    gradients = set(map(str, model.param_to_grad.values()))
    options.setdefault("namescope", losses[0].rpartition("loss")[0])
    made = m.memonger.share_grad_blobs(model.net, losses, gradients, **options)
    return measured(m, model.net.Proto(), made, shapes)


def shared_in_dag(m: Any, name: str) -> dict[str, int]:
    """Return what is measured of a net without gradients whose branches can run at the same time."""
    model, losses, inputs = RUN[name](m)
    data = next(blob for blob in inputs if blob.endswith("data"))
    shapes = shapes_of(m, model, {data: inputs[data]})
    made = m.memonger.optimize_inference_for_dag(model.net, [data], losses[0].rpartition("loss")[0])
    return measured(m, model.net.Proto(), made, shapes)


def shared_in_order(m: Any, name: str) -> dict[str, int]:
    """Return what is measured of a net that runs in order; its last outputs stay."""
    model, _, inputs = RUN[name](m)
    data = next(blob for blob in inputs if blob.endswith("data"))
    net = model.net.Proto()
    static = {*net.external_input, *net.op[-1].output}
    made = m.memonger.optimize_inference_fast(net, static)
    return measured(m, net, made, shapes_of(m, model, {data: inputs[data]}))


def interference(m: Any, name: str, algo: str) -> dict[str, int]:
    """Return how many blobs are left, and what is saved, with sizes."""
    model, _, inputs = RUN[name](m)
    data = next(blob for blob in inputs if blob.endswith("data"))
    net = model.net.Proto()
    shapes = shapes_of(m, model, {data: inputs[data]})
    sizes = {blob: count(shapes.get(blob, [0])) for blob in names_of(net)}
    static = {*net.external_input, *net.op[-1].output}
    made = m.memonger.optimize_interference(
        net, static, blob_sizes=sizes, algo=getattr(m.memonger.AssignmentAlgorithm, algo)
    )
    saved = sum(sizes.values()) - int(m.memonger.get_memory_usage(made.assignments))
    return {"blobs": len(names_of(made.net)), "saved": saved}


def text_shares(m: Any, name: str) -> dict[str, int]:
    """Return how many blobs a net of text has left, by several functions; its last output is a declared one."""
    lines = TEXTS[name]
    last = lines[-1].split(" = ")[0]
    net = text_net(m, *lines, outputs=[last])
    inputs = list(net.Proto().external_input)
    fast = m.memonger.optimize_inference_fast(net.Proto(), [*inputs, last])
    return {
        "dag": len(names_of(m.memonger.optimize_inference_for_dag(net, inputs))),
        "undeclared": len(names_of(m.memonger.optimize_inference_for_dag(text_net(m, *lines), inputs))),
        "fast": len(names_of(fast)),
    }


def nets(m: Any, chosen: Any = None) -> dict[str, Any]:
    """Return all that is measured of nets, or of those chosen by name."""
    found: dict[str, Callable[[], Any]] = {}
    for name in TRAINED:
        for sized in (False, True):
            for activations in (False, True):
                title = f"gradients of {name}{', sized' * sized}{', with activations' * activations}"
                found[title] = lambda name=name, sized=sized, activations=activations: shared_gradients(
                    m, name, sized=sized, share_activations=activations
                )
    found["gradients of mlp, no scope"] = lambda: shared_gradients(m, "mlp", namescope="")
    found["gradients of mlp, some kept"] = lambda: shared_gradients(m, "mlp", dont_share_blobs={"s/fc1_grad"})
    for name in RUN:
        found["dag of " + name] = lambda name=name: shared_in_dag(m, name)
        found["order of " + name] = lambda name=name: shared_in_order(m, name)
        for algo in ("GREEDY", "DYNAMIC_PROGRAMMING")[: 1 + (name == "lenet")]:  # the other one would take hours there
            found[f"{algo} of {name}"] = lambda name=name, algo=algo: interference(m, name, algo)
    for name in TEXTS:
        found["text, " + name] = lambda name=name: text_shares(m, name)
    return {title: act() for title, act in found.items() if chosen is None or title in chosen}


def ranges_of(m: Any, ranges: Any) -> Any:
    """Return named ranges as lists."""
    return [[name, *life] for name, life in ranges]


def drawn_ranges(m: Any, seed: int) -> list[Any]:
    """Draw ranges in the order of their ends."""
    draw = random.Random(seed)
    made: list[Any] = []
    for number in range(draw.randint(1, 9)):
        defined = draw.randint(0, 9)
        life = m.memonger.LiveRange(defined, defined + draw.randint(0, 4), draw.choice([1, 2, 5, 10]))
        made.append((f"b{number}", life))
    return sorted(made, key=lambda one: one[1].used)


def freed_behind(net: Any) -> list[Any]:
    """Return behind how many operators which blobs are freed; several behind one come in the order of a set there."""
    found: list[Any] = []
    behind = 0
    for op in net.op:
        if op.type == "Free":
            found.append([behind, op.input[0]])
        else:
            behind += 1
    return sorted(found)


def exact(m: Any) -> dict[str, Any]:
    """Return what follows from operators and ranges alone."""
    found: dict[str, Any] = {}
    for name, lines in TEXTS.items():
        ops = text_net(m, *lines).Proto().op
        found["edges, " + name] = [list(edge) for edge in m.memonger.compute_interference_graph(ops).edges()]
        found["ranges, " + name] = ranges_of(m, m.memonger.compute_ranges(ops).items())
        net = text_net(m, *lines)
        static = [*net.Proto().external_input, lines[-1].split(" = ")[0]]
        made = m.memonger.optimize_interference(net.Proto(), static)
        found["optimized, " + name] = [
            [ranges_of(m, one) for one in made.assignments],
            made.blob_assignments,
            [[list(op.input), list(op.output)] for op in made.net.op],
        ]
        freed = m.memonger.release_blobs_when_used(net.Proto(), {"c"})
        found["freed, " + name] = freed_behind(freed)
    for seed in range(40):
        ranges = drawn_ranges(m, seed)
        found[f"greedy {seed}"] = [
            ranges_of(m, one) for one in m.memonger.compute_assignments_greedy(list(ranges), None)
        ]
        found[f"static {seed}"] = [
            ranges_of(m, one)
            for one in m.memonger.compute_assignments(dict(ranges), ["b1", "b3"], m.memonger.AssignmentAlgorithm.GREEDY)
        ]
    return found


def by_programming(m: Any) -> dict[str, int]:
    """Return what ranges take by the second algorithm."""
    made: dict[str, int] = {}
    for seed in range(40):
        places = m.memonger.compute_assignments_dp(drawn_ranges(m, seed), None)
        made[str(seed)] = int(m.memonger.get_memory_usage(places))
    return made


def alike(m: Any) -> dict[str, Any]:
    """Return which of the nets of text are alike."""
    found: dict[str, Any] = {}
    texts = {
        **TEXTS,
        "other names": ("p = Relu(y)", "q = Relu(p)", "p = Relu(q)", "q = Relu(p)", "p = Relu(q)"),
        "other type": (*CHAIN[:4], "e = Tanh(d)"),
        "other input": (*CHAIN[:4], "e = Relu(c)"),
        "shorter": CHAIN[:4],
    }
    for one, lines in texts.items():
        for other, lines_too in texts.items():
            pair = text_net(m, *lines).Proto(), text_net(m, *lines_too).Proto()
            found[f"{one}, {other}"] = [
                bool(m.memonger.verify_graph_equality(*pair)),
                bool(m.memonger.verify_inplace_blobs(*pair)),
            ]
    return found


def made_nets(m: Any) -> dict[str, str]:
    """Return of each net a digest of its operators: types and blobs; nets are measured where they are the same."""
    found: dict[str, str] = {}
    for kind, makers in (("trained", TRAINED), ("run", RUN)):
        for name, make in makers.items():
            net = make(m)[0].net.Proto()
            lines = [" ".join([op.type, *op.input, "->", *op.output]) for op in net.op]
            found[f"{name}, {kind}"] = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return found


def footprints(m: Any) -> dict[str, Any]:
    """Return what nets are estimated to take."""
    option = import_module("caffe2.proto.caffe2_pb2").DeviceOption()
    found: dict[str, Any] = {}
    for name, lines in TEXTS.items():
        net = text_net(m, *lines)
        blobs = names_of(net.Proto())
        shapes = {blob: [2 + number, 3] for number, blob in enumerate(blobs)}
        types = {blob: [1, 13, 10, 5][number % 4] for number, blob in enumerate(blobs)}
        freed = m.memonger.release_blobs_when_used(net.Proto(), set())
        for title, proto in ((name, net.Proto()), (name + ", freed", freed)):
            made, peak, kinds = m.memonger.estimate_memory_usage([proto], shapes, types, option)
            found[title] = [int(made), int(peak), {kind: int(size) for kind, size in kinds.items()}]
    return found


def orders(m: Any) -> list[Any]:
    """Return orders of random graphs of up to eight nodes: beyond, they hang on the order of a set."""
    networkx: Any = import_module("networkx")
    draw = random.Random(5)
    made: list[Any] = []
    while len(made) < 120:
        nodes, share = draw.randint(1, 8), draw.choice([0.1, 0.2, 0.3, 0.5])
        graph = networkx.DiGraph()
        graph.add_nodes_from(range(nodes))
        graph.add_edges_from((i, j) for j in range(nodes) for i in range(j) if draw.random() < share)
        one: dict[str, Any] = {"nodes": nodes, "edges": [list(edge) for edge in graph.edges()]}
        one["depth first"] = list(m.memonger.topological_sort_traversal(graph))
        try:
            one["longest first"] = list(m.memonger.topological_sort_traversal_longest_path(graph))
        except AssertionError:  # where longest paths join and part again
            continue
        made.append(one)
    return made


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    given = modules()
    parts = {part.__name__: part(given) for part in (orders, exact, by_programming, alike, made_nets, footprints, nets)}
    lines = [json.dumps(name) + ": " + json.dumps(part, sort_keys=True) for name, part in parts.items()]
    Path(sys.argv[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
