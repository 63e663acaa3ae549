"""Draw edits of nets, and record what the genuine Caffe2 makes of them; it runs under either Python.

    PYTHON_OF_CAFFE2 tools/record_wirings.py tests/data/wirings.json

Nets, edits and patterns are drawn from a seed, by Python's own generator alone. The genuine process may end at an edit:
such a seed is recorded as null.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import sys
from typing import Any

SEEDS = 300
TYPES = "ABC"


def draw_net(draw: random.Random) -> list[tuple[str, list[str], list[str]]]:
    """Return operators as type, inputs and outputs; names are written again now and then."""
    names = ["x0", "x1"]
    made: list[tuple[str, list[str], list[str]]] = []
    for number in range(draw.randint(2, 6)):
        inputs = [draw.choice(names[-4:]) for _ in range(draw.choice([0, 1, 1, 2, 2]))]
        outputs = [f"y{number}_{place}" for place in range(draw.choice([0, 1, 1, 1, 2]))]
        made.append((draw.choice(TYPES), inputs, outputs))
        names += outputs
    return made


def edited(seed: int, core: Any, ng: Any) -> dict[str, Any]:
    """Return what edits make of a net: its operators, nodes and the matches of a pattern in it."""
    draw = random.Random(seed)
    net = core.Net("drawn")
    net.Proto().op.extend([core.CreateOperator(*one) for one in draw_net(draw)])
    module = ng.NNModule(net)
    for _ in range(draw.randint(0, 6)):
        _edit(draw, module, ng)
    pattern = ng.NNMatchGraph()
    nodes: list[Any] = []
    for number in range(draw.randint(1, 4)):
        strict, kind = draw.random() < 0.7, draw.choice("oodda")
        given = {"o": [ng.NeuralNetOperator(draw.choice(TYPES))], "d": [ng.NeuralNetData("any")], "a": []}[kind]
        nodes.append(pattern.createNode(*given, strict=strict))
        if number:
            pattern.createEdge(nodes[draw.randrange(number)], nodes[-1])
    everything = module.nodes
    made = module.convertToCaffe2Proto()
    return {
        "ops": [[op.type, list(op.input), list(op.output)] for op in made.op],
        "nodes": [node.name for node in everything],
        "matches": [sorted(everything.index(node) for node in match.nodes) for match in module.match(pattern)],
    }


def _edit(draw: random.Random, module: Any, ng: Any) -> None:
    """Make one edit; edges lead from older operators to younger ones, so that there is no circle."""
    operators, kind = module.operators, draw.randrange(8)
    if kind > 4:
        _rewire(draw, module, ng, kind)
    elif not operators:
        return
    elif kind < 2:
        _put_before(draw, module, ng)
    elif kind == 2:
        node = draw.choice(operators)
        module.replaceNode(node, module.createNode(ng.NeuralNetOperator(draw.choice(TYPES))))
        module.deleteNode(node)
    elif kind == 3:
        module.deleteNode(draw.choice(operators))
    else:
        node = draw.choice(operators)
        for blob in node.inputs[:1]:
            module.deleteEdge(blob, node)


def _put_before(draw: random.Random, module: Any, ng: Any) -> None:
    """Let an operator read a new blob, which a new operator writes that reads from outside."""
    outside = [one for one in module.tensors if not one.hasProducer()]
    node, blob = draw.choice(module.operators), module.createUniqueDataNode(draw.choice(["x0", "new"]))
    new = module.createNode(ng.NeuralNetOperator(draw.choice(TYPES)))
    module.createEdge(new, blob)
    module.createEdge(blob, node)
    if outside:
        module.createEdge(draw.choice(outside), new)


def _rewire(draw: random.Random, module: Any, ng: Any, kind: int) -> None:
    """Let others read a blob, or read what an operator reads, or write a blob."""
    new = ng.NeuralNetOperator(draw.choice(TYPES))
    written = [one for one in module.tensors if one.hasProducer()]
    if kind == 5 and module.tensors:
        module.replaceAllUsesWith(draw.choice(module.tensors), module.createUniqueDataNode("x0"))
    elif kind == 6 and module.operators:
        module.replaceAsConsumer(draw.choice(module.operators), module.createNode(new))
    elif written:
        module.replaceProducer(draw.choice(written), module.createNode(new))


def _apart(seed: int) -> Any:
    """Return what the genuine one gives, from a process of its own; None where that ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(5)
        from caffe2.python import core
        from caffe2.python import nomnigraph as ng

        os.write(writing, json.dumps(edited(seed, core, ng)).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told) if told else None


if __name__ == "__main__":
    importlib.import_module("caffe2.python.nomnigraph")  # once, before the children are

    with open(sys.argv[1], "w") as file:
        lines = (json.dumps(_apart(seed), separators=(",", ":")) for seed in range(SEEDS))
        file.write("[\n" + ",\n".join(lines) + "\n]\n")
