"""Nets whose blobs share names, and so memory; `tazza.graph` has what it stands on."""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from caffe2.python import _import_c_extension as C
from caffe2.python import workspace
from caffe2.python._net_tools import DEFAULT_REMAP_FUNCS
from caffe2.python._operators import GradientSlice
from tazza.errors import ArgumentError
from tazza.graph.assignment import (
    Assignment,
    NamedRange,
    best,
    completed,
    divided,
    fits_behind,
    memory_used,
    nearest,
    overlap,
    statistics,
)
from tazza.graph.footprint import footprint
from tazza.graph.likeness import unlike_in_place, unlike_wiring
from tazza.graph.live_range import LiveRange, live_ranges
from tazza.graph.order import check_order, depth_first_order, longest_first_order, operator_edges
from tazza.graph.recycling import by_device, kept_by_name
from tazza.graph.release import with_release
from tazza.graph.roles import made_by_last_layers
from tazza.operator.nested import rename_blobs
from tazza.proto import DeviceOption, NetDef, OperatorDef

__all__ = [
    "AssignmentAlgorithm",
    "LiveRange",
    "Optimization",
    "Statistics",
    "apply_assignments",
    "apply_recurrent_blob_assignments",
    "blob_nbytes",
    "collect_blob_sizes",
    "compute_assignments",
    "compute_assignments_dp",
    "compute_assignments_greedy",
    "compute_blob_assignments",
    "compute_interference_graph",
    "compute_ranges",
    "compute_statistics",
    "estimate_memory_usage",
    "get_memory_usage",
    "get_updated_ranges",
    "is_compatible",
    "log",
    "optimize_inference_fast",
    "optimize_inference_for_dag",
    "optimize_interference",
    "release_blobs_when_used",
    "share_grad_blobs",
    "topological_sort_traversal",
    "topological_sort_traversal_longest_path",
    "verify_assignments",
    "verify_graph_equality",
    "verify_inplace_blobs",
]

log = logging.getLogger(__name__)

# -- names for many blobs ----------------------------------------------------------------------------------------------


def share_grad_blobs(
    net: Any,
    losses: Iterable[Any],
    param_grads: Iterable[Any],
    namescope: str,
    dont_share_blobs: Collection[str] | None = None,
    share_activations: bool = False,
    blob_shapes: Mapping[str, Sequence[int]] | None = None,
) -> NetDef:
    """Return the net of a training step whose gradients share names, but for those of parameters.

    Args:
        net: a `core.Net`, which stays as it is.
        losses: where the backward pass begins; they stay as they are.
        param_grads: gradients of parameters.
        namescope: stands in front of the blobs that take part, and of new names.
        dont_share_blobs: blobs that keep out of it.
        share_activations: whether gradients also take the memory of what the backward pass has read for the last time;
            predictions, and what else comes behind the last parameters, stay.
        blob_shapes: with them memory counts, without them the number of names.
    """
    definition = net.Proto()
    heads = [str(loss) for loss in losses]
    out = {*heads, *_names(param_grads), *map(str, () if dont_share_blobs is None else dont_share_blobs)}
    made = {name for op in definition.op for name in op.output if name.startswith(namescope)}
    gradients = {name for name in made if name.endswith("_grad")}
    positions = [i for i, op in enumerate(definition.op) if gradients.intersection(op.output)]
    activations = made - made_by_last_layers(definition, heads) if share_activations else set[str]()
    shared = (gradients | activations) - out
    return _recycled(definition, heads, positions, shared, namescope, blob_shapes)


def _names(blobs: Iterable[Any]) -> set[str]:
    """Return the names of blobs, those of indices and values where one is given by rows."""
    parts = [[*one] if isinstance(one, GradientSlice) else [one] for one in blobs]
    return {str(part) for one in parts for part in one}


def _recycled(
    net: NetDef,
    heads: list[str],
    positions: list[int],
    shared: set[str],
    namescope: str,
    blob_shapes: Mapping[str, Sequence[int]] | None = None,
) -> NetDef:
    begin = time.monotonic()
    shapes = {} if blob_shapes is None else {str(name): list(shape) for name, shape in blob_shapes.items()}
    made = C.memonger_compute_blob_recycling_for_dag(
        net.SerializeToString(), heads, positions, shared, namescope, set(), shapes
    )
    log.info("sharing names took %.3f s", time.monotonic() - begin)
    return NetDef.FromString(made)


def optimize_inference_for_dag(net: Any, input_blobs: Iterable[Any], namescope: str = "") -> NetDef:
    """Return a net without gradients whose blobs share names, all that follow from these inputs.

    Operators that could run at the same time still can.

    Args:
        net: a `core.Net`, which stays as it is.
        input_blobs: what the net is fed.
        namescope: stands in front of new names.
    """
    definition = net.Proto()
    gradient = next((op for op in definition.op if op.is_gradient_op), None)
    assert gradient is None, f"{gradient.type if gradient else ''} is a gradient operator, and this is for nets without"
    made = {name for op in definition.op for name in op.output}
    return _recycled(definition, [*map(str, input_blobs)], [*range(len(definition.op))], made, namescope)


def optimize_inference_fast(net: NetDef, static_blobs: Iterable[Any]) -> NetDef:
    """Return a net that runs its operators in order, with blobs but for these under few names; others stay as they are.

    Blobs are divided as in `optimize_inference_for_dag`; that the order is known lets more of them share.
    """
    begin = time.monotonic()
    made = C.memonger_optimize_inference_net(net.SerializeToString(), [*map(str, static_blobs)])
    log.info("sharing names took %.3f s", time.monotonic() - begin)
    return NetDef.FromString(made)


# -- names by live ranges ----------------------------------------------------------------------------------------------


class AssignmentAlgorithm(enum.Enum):
    """How blobs are divided: each to the berth whose size is nearest, or by comparing many ways."""

    GREEDY = 0
    DYNAMIC_PROGRAMMING = 1


class Statistics(NamedTuple):
    """Bytes of blobs, each with memory of its own, and in turns."""

    baseline_nbytes: int
    optimized_nbytes: int


class Optimization(NamedTuple):
    """A net, who shares a berth with whom, and new names."""

    net: NetDef
    assignments: list[Assignment]
    blob_assignments: dict[str, str]


class _Nodes(dict[int, dict[str, OperatorDef]]):
    """Operators by number; called, they are listed."""

    def __call__(self, data: bool = False) -> Any:
        return self.items() if data else list(self)


class _OperatorGraph:
    """Which operators have to run before which: what is asked of a graph of networkx, as far as programs asked."""

    def __init__(self, ops: Sequence[OperatorDef]) -> None:
        self.nodes = _Nodes({i: {"op": op} for i, op in enumerate(ops)})
        self._edges = operator_edges(ops)

    def edges(self) -> list[tuple[int, int]]:
        """Return pairs of operators, the second of which waits for the first."""
        return list(self._edges)

    def successors(self, node: int) -> list[int]:
        """Return who waits for an operator."""
        return [other for one, other in self._edges if one == node]

    def predecessors(self, node: int) -> list[int]:
        """Return for whom an operator waits."""
        return [one for one, other in self._edges if other == node]

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Any:
        return iter(self.nodes)


def compute_interference_graph(ops: Iterable[OperatorDef]) -> Any:
    """Return the graph of which operators have to run before which, `nodes[i]["op"]` the operator at position i."""
    return _OperatorGraph(list(ops))


def topological_sort_traversal(g: Any) -> list[Any]:
    """Return an order in which the operators of a graph can run."""
    return depth_first_order(g.nodes(), g.edges())


def topological_sort_traversal_longest_path(g: Any) -> list[Any]:
    """Return an order in which they can run, and longer paths come before shorter ones."""
    return longest_first_order(g.nodes(), g.edges())


def compute_ranges(
    linearized_ops: Iterable[OperatorDef], blob_sizes: Mapping[str, int] | None = None
) -> dict[str, LiveRange]:
    """Return the live range of each blob of operators in order; sizes in bytes."""
    return live_ranges(linearized_ops, blob_sizes)


def get_updated_ranges(ranges: Iterable[NamedRange], max_live: int | None = None) -> list[NamedRange]:
    """Return ranges without gaps: what is there before begins at -1, what nobody reads ends at `max_live`."""
    return completed(ranges, max_live)


def is_compatible(candidate_range: LiveRange, assignment: Sequence[NamedRange], static_blobs: Collection[str]) -> bool:
    """Whether a blob may follow the last one of a berth, which must not be static."""
    return fits_behind(candidate_range, assignment) and assignment[-1][0] not in static_blobs


def compute_assignments_greedy(
    ranges_sorted: Iterable[NamedRange], init_assignments: Iterable[Assignment] | None = None
) -> list[Assignment]:
    """Return berths for ranges in the order of their ends, each in the one whose size is nearest."""
    return nearest(ranges_sorted, () if init_assignments is None else init_assignments)


def compute_assignments_dp(
    ranges_sorted: Iterable[NamedRange],
    init_assignment: Iterable[Assignment] | None,
    counter: list[int] | None = None,
) -> list[Assignment]:
    """Return berths for ranges in the order of their ends, as small as is found; `counter[0]` counts ranges."""
    listed = list(ranges_sorted)
    if counter:
        counter[0] += len(listed)
    return best(listed, () if init_assignment is None else init_assignment)


def compute_assignments(
    ranges: Mapping[str, LiveRange], static_blobs: Collection[str], algo: AssignmentAlgorithm
) -> list[Assignment]:
    """Return berths for blobs: those that may share one, then each static one by itself.

    Raises:
        ArgumentError: `algo` is no `AssignmentAlgorithm`.
    """
    ways = {AssignmentAlgorithm.GREEDY: nearest, AssignmentAlgorithm.DYNAMIC_PROGRAMMING: best}
    if algo not in ways:
        raise ArgumentError(f"{algo!r} is no AssignmentAlgorithm")
    return divided(ranges.items(), static_blobs, ways[algo])


def get_memory_usage(assignments: Iterable[Assignment]) -> int:
    """Return the sum of the largest sizes of all berths."""
    return memory_used(assignments)


def verify_assignments(assignments: Iterable[Assignment]) -> None:
    """Check that nobody begins in a berth where somebody still lives."""
    found = overlap(assignments)
    assert found is None, f"{found[0] if found else ''} still lives where {found[1] if found else ''} begins"


def compute_blob_assignments(assignments: Iterable[Assignment]) -> dict[str, str]:
    """Return the new name of each blob that shares a berth: that of the last one there."""
    shared = [[name for name, _ in one] for one in assignments if len(one) > 1]
    return {name: names[-1] for names in shared for name in names}


def apply_assignments(net: NetDef, blob_assignments: Mapping[str, str]) -> None:
    """Give blobs of a net other names."""
    for op in net.op:
        rename_blobs(op, blob_assignments)
        if op.type.startswith("RecurrentNetwork"):
            apply_recurrent_blob_assignments(op, blob_assignments, lambda name: blob_assignments.get(name, name))


def apply_recurrent_blob_assignments(
    op: OperatorDef, blob_assignments: Mapping[str, str], canonical_name: Callable[[str], str]
) -> None:
    """Give blobs that a recurrent operator names among its arguments other names."""
    names = {name: canonical_name(name) for name in blob_assignments}
    DEFAULT_REMAP_FUNCS["RecurrentNetwork"](op, "", names)


def optimize_interference(
    net: NetDef,
    static_blobs: Collection[str],
    ordering_function: Callable[[Any], Iterable[int]] = topological_sort_traversal,
    blob_sizes: Mapping[str, int] | None = None,
    algo: AssignmentAlgorithm = AssignmentAlgorithm.GREEDY,
) -> Optimization:
    """Return a net that runs its operators in another order, and whose blobs but for static ones share names.

    Args:
        net: stays as it is.
        static_blobs: keep out of it, as do those that cannot share (`tazza.graph.recycling`).
        ordering_function: gives the order, from the graph of `compute_interference_graph`.
        blob_sizes: in bytes (`collect_blob_sizes`).
        algo: how blobs are divided.

    Raises:
        ArgumentError: the order leaves an operator out, or lets it run too early.
    """
    graph = compute_interference_graph(net.op)
    order = list(ordering_function(graph))
    check_order(order, range(len(net.op)), graph.edges())
    made = NetDef()
    made.CopyFrom(net)
    del made.op[:]
    made.op.extend(net.op[i] for i in order)
    ranges = dict(get_updated_ranges(compute_ranges(made.op, blob_sizes).items()))
    static = {*map(str, static_blobs), *kept_by_name(made)}
    assignments: list[Assignment] = []
    for alike in by_device(made):
        assignments += compute_assignments({name: ranges[name] for name in ranges if name in alike}, static, algo)
    names = compute_blob_assignments(assignments)
    apply_assignments(made, names)
    return Optimization(made, assignments, names)


# -- what memory is taken ----------------------------------------------------------------------------------------------


def blob_nbytes(blob: Any) -> int:
    """Return the bytes of a blob's elements, 0 where there is no such tensor."""
    return C.get_blob_size_bytes(str(blob)) if workspace.HasBlob(str(blob)) else 0


def collect_blob_sizes(net: NetDef) -> dict[str, int]:
    """Return the bytes of all blobs that a net names, as they are in the workspace."""
    return {name: blob_nbytes(name) for op in net.op for name in (*op.input, *op.output)}


def compute_statistics(assignments: Iterable[Assignment]) -> Statistics:
    """Return what blobs take as they are in the workspace, each by itself and in turns."""
    names = [[name for name, _ in one] for one in assignments]
    return Statistics(*statistics(names, {name: blob_nbytes(name) for one in names for name in one}))


def estimate_memory_usage(
    protos: Iterable[NetDef], shapes: Mapping[str, Sequence[int]], types: Mapping[str, int], devicescope: Any
) -> tuple[int, int, dict[str, int]]:
    """Return bytes that nets make on a device, the most at one time, and those of each operator type."""
    found = footprint(protos, shapes, types, DeviceOption() if devicescope is None else devicescope)
    return found.made_bytes, found.peak_bytes, dict(found.by_type)


def release_blobs_when_used(
    netproto: NetDef, dont_free_blobs: Collection[str], selector_fun: Callable[[str], bool] | None = None
) -> NetDef:
    """Return the net with operators that empty each blob behind its last reader.

    Args:
        netproto: stays as it is.
        dont_free_blobs: stay, as external inputs and outputs do.
        selector_fun: says of a blob whether it may be emptied.
    """
    return with_release(netproto, {*map(str, dont_free_blobs)}, selector_fun)


# -- whether nets do the same ------------------------------------------------------------------------------------------


def verify_graph_equality(net_a: NetDef, net_b: NetDef) -> bool:
    """Whether the operators of two nets are joined in the same way, whatever names blobs have."""
    found = unlike_wiring(net_a, net_b)
    if found is not None:
        log.info("operator %d differs, or reads what another one made", found)
    return found is None


def verify_inplace_blobs(net_a: NetDef, net_b: NetDef) -> bool:
    """Whether the operators of two nets write over the same of their inputs."""
    return unlike_in_place(net_a, net_b) is None
