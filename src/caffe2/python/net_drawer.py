"""Drawings of nets by pydot, which need not be there: without it only the drawing fails."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from caffe2.python._net import Net
from tazza.errors import UnavailableError
from tazza.proto import ExecutionStep as StepProto
from tazza.proto import NetDef, OperatorDef, PlanDef

try:
    import pydot  # pyright: ignore[reportMissingImports]
except ImportError:
    pydot = None

logger = logging.getLogger(__name__)

OP_STYLE = {"shape": "box", "color": "#0F9D58", "style": "filled", "fontcolor": "#FFFFFF"}
BLOB_STYLE = {"shape": "octagon"}
EMPTY_PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000101000000003"
    "76ef9240000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
)
"""A PNG of one pixel."""

Producer = Callable[..., Any]


def _drawing() -> Any:
    """Return pydot.

    Raises:
        UnavailableError: it is not there.
    """
    if pydot is None:
        raise UnavailableError(
            "pydot is not installed: no net is drawn", hint="pip install pydot, and install graphviz"
        )
    return pydot


def _rectify_operator_and_name(operators_or_net: Any, name: str | None) -> tuple[list[OperatorDef], str]:
    """Return the operators of what is a net, its message or a list, and the name of the drawing."""
    if isinstance(operators_or_net, Net):
        proto = operators_or_net.Proto()
        return list(proto.op), proto.name if name is None else name
    if isinstance(operators_or_net, NetDef):
        return list(operators_or_net.op), operators_or_net.name if name is None else name
    operators = list(operators_or_net)
    for op in operators:
        if not isinstance(op, OperatorDef):
            raise Exception("The operators should be proto")
    return operators, "unnamed" if name is None else name


def _escape_label(name: str) -> str:
    return json.dumps(name)


def GetOpNodeProducer(append_output: bool, **kwargs: Any) -> Producer:
    """Return what makes the node of an operator."""

    def produce(op: OperatorDef, op_id: int) -> Any:
        label = f"{op.name} ({op.type})" if op.name else f"{op.type} (op#{op_id})"
        if append_output:
            label += "".join(f"\n{name}" for name in op.output)
        return _drawing().Node(label, **kwargs)

    return produce


def GetBlobNodeProducer(**kwargs: Any) -> Producer:
    """Return what makes the node of a blob."""

    def produce(node_name: str, label: str) -> Any:
        return _drawing().Node(node_name, label=label, **kwargs)

    return produce


def GetPydotGraph(
    operators_or_net: Any,
    name: str | None = None,
    rankdir: str = "LR",
    op_node_producer: Producer | None = None,
    blob_node_producer: Producer | None = None,
) -> Any:
    """Return a drawing of operators and blobs, of which each version has a node."""
    operators, name = _rectify_operator_and_name(operators_or_net, name)
    op_node = GetOpNodeProducer(False, **OP_STYLE) if op_node_producer is None else op_node_producer
    blob_node = GetBlobNodeProducer(**BLOB_STYLE) if blob_node_producer is None else blob_node_producer
    graph = _drawing().Dot(name, rankdir=rankdir)
    nodes: dict[str, Any] = {}
    versions: dict[str, int] = {}

    def node_of(blob: str) -> Any:
        key = f"{blob}{versions.setdefault(blob, 0)}"
        if key not in nodes:
            nodes[key] = blob_node(_escape_label(key), _escape_label(blob))
        graph.add_node(nodes[key])
        return nodes[key]

    for position, op in enumerate(operators):
        node = op_node(op, position)
        graph.add_node(node)
        for blob in op.input:
            graph.add_edge(_drawing().Edge(node_of(blob), node))
        for blob in op.output:
            versions[blob] = versions[blob] + 1 if blob in versions else 0
            graph.add_edge(_drawing().Edge(node, node_of(blob)))
    return graph


def GetPydotGraphMinimal(
    operators_or_net: Any,
    name: str | None = None,
    rankdir: str = "LR",
    minimal_dependency: bool = False,
    op_node_producer: Producer | None = None,
) -> Any:
    """Return a drawing of operators alone; with `minimal_dependency` no edge that follows from others."""
    operators, name = _rectify_operator_and_name(operators_or_net, name)
    op_node = GetOpNodeProducer(False, **OP_STYLE) if op_node_producer is None else op_node_producer
    graph = _drawing().Dot(name, rankdir=rankdir)
    nodes: list[Any] = []
    ancestors: list[set[int]] = []
    writer: dict[str, int] = {}
    for position, op in enumerate(operators):
        nodes.append(op_node(op, position))
        graph.add_node(nodes[-1])
        parents = [writer[blob] for blob in op.input if blob in writer]
        behind = {one for parent in parents for one in ancestors[parent]}
        ancestors.append(behind | set(parents))
        for parent in parents:
            if not minimal_dependency or parent not in behind:
                graph.add_edge(_drawing().Edge(nodes[parent], nodes[-1]))
        writer.update(dict.fromkeys(op.output, position))
    return graph


def GetOperatorMapForPlan(plan_def: PlanDef) -> dict[str, Any]:
    """Return the operators of each net of a plan."""
    return {net.name: net.op for net in plan_def.network}


def _draw_nets(nets: Iterable[str], g: Any) -> list[Any]:
    made: list[Any] = []
    for name in nets:
        made.append(_drawing().Node(_escape_label(name)))
        g.add_node(made[-1])
        if len(made) > 1:
            g.add_edge(_drawing().Edge(made[-2], made[-1]))
    return made


def _draw_steps(steps: Iterable[StepProto], g: Any, skip_step_edges: bool = False) -> list[Any]:
    made: list[Any] = []
    for step in steps:
        label = step.name + ("\nsteps concurrently:" if step.concurrent_substeps else "\n")
        made.append(_drawing().Node(_escape_label(label), **OP_STYLE))
        g.add_node(made[-1])
        if len(made) > 1 and not skip_step_edges:
            g.add_edge(_drawing().Edge(made[-2], made[-1]))
        inner = _draw_nets(step.network, g) if step.network else _draw_steps(step.substep, g, step.concurrent_substeps)
        for node in inner if step.concurrent_substeps else inner[:1]:
            g.add_edge(_drawing().Edge(made[-1], node))
    return made


def GetPlanGraph(plan_def: PlanDef, name: str | None = None, rankdir: str = "TB") -> Any:
    """Return a drawing of the steps and nets of a plan."""
    graph = _drawing().Dot(name, rankdir=rankdir)
    _draw_steps(plan_def.execution_step, graph)
    return graph


def _edges(operators: Sequence[OperatorDef]) -> Mapping[str, list[Any]]:
    """Return operators and versions of blobs as nodes, and who reads and writes which as edges."""
    nodes: list[Any] = []
    edges: list[Any] = []
    present: dict[str, int] = {}

    def add(node: dict[str, Any]) -> int:
        nodes.append({"id": len(nodes), **node})
        return len(nodes) - 1

    for position, op in enumerate(operators):
        own = add({"label": op.type, "op_id": position, "type": "op"})
        for blob in op.input:
            if blob not in present:
                present[blob] = add({"label": blob, "type": "blob"})
            edges.append({"source": present[blob], "target": own})
        for blob in op.output:
            present[blob] = add({"label": blob, "type": "blob"})
            edges.append({"source": own, "target": present[blob]})
    return {"nodes": nodes, "edges": edges}


def GetGraphInJson(operators_or_net: Any, output_filepath: str) -> None:
    """Write operators and blobs to a file as nodes and edges."""
    operators, _ = _rectify_operator_and_name(operators_or_net, None)
    Path(output_filepath).write_text(json.dumps(_edges(operators)), encoding="utf-8")


def GetGraphPngSafe(func: Callable[..., Any], *args: Any, **kwargs: Any) -> bytes:
    """Return the PNG of what a function draws, or one of a single pixel where that fails."""
    try:
        graph = func(*args, **kwargs)
        if not isinstance(graph, _drawing().Dot):
            raise ValueError("func is expected to return pydot.Dot")
        return graph.create_png()
    except Exception as error:
        logger.error("Failed to draw graph: %s", error)
        return EMPTY_PICTURE
