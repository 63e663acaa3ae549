"""What is told of each operator, as JSON; keys are short, since a page holds thousands of them.

    t  type            f  family           d  what it computes      n  name of the operator
    i  inputs          o  outputs          a  arguments             x  control inputs
    p  parameters      c  operations       b  bytes read, written   v  device
    e  engine          m  implementation   l  layout                q  what each engine answered
    u  made from       s  seconds a run    sd, mn, r, w             how they vary, the least, runs, lanes
    g  made at         z  slices           k  bytes of its outputs  y  made, or taken away, by the next pass

An input or output is a list: name, spec, letter of the schema, and of an input whether it is a parameter.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tazza.data_class import dataclass
from tazza.errors import FormatError, TazzaError
from tazza.graph.inference import OperatorSpecs
from tazza.graph.roles import comes_with_data, roles_of
from tazza.graph.text import argument_text
from tazza.nets.explanation import Row
from tazza.nets.plan.explanation import layout_name
from tazza.observers.profile import Profile
from tazza.observers.view.geometry import TIMES
from tazza.observers.view.scene import Drawn, Facts, NetDrawn
from tazza.observers.view.wiring import wiring_of
from tazza.operator import SCHEMAS, Choice, Cost, Spec
from tazza.operator.description import family_of
from tazza.operator.nested import nested_nets
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import TensorSpec

TEXT_MAX = 400
"""Characters of an argument that are shown."""
UNKNOWN = "(unknown)"


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known of a net beside its definition.

    Attributes:
        specs: of each operator, by position; fewer where they are not findings.
        parameters: specs of blobs from outside that are no data.
        rows: of each operator that ran by itself, by position.
        times: seconds of its runs, by position, with the lanes that it ran on.
        origins: for each operator those of the first net that it stands for.
    """

    specs: Sequence[OperatorSpecs] = ()
    parameters: Mapping[str, Spec | None] = field(default_factory=dict[str, "Spec | None"])
    rows: Sequence[Row] = ()
    times: Mapping[int, Facts] = field(default_factory=dict[int, Facts])
    origins: Sequence[tuple[str, ...]] = ()


def net_drawn(net: NetDef, findings: Findings, data: Collection[str], outputs: Collection[str]) -> NetDrawn:
    """Return what is drawn of a net; `data` are the blobs from outside that are no parameters."""
    told = _Once()
    ops: list[Drawn] = []
    for position, op in enumerate(net.op):
        spec = findings.specs[position] if position < len(findings.specs) else None
        inputs = spec.inputs if spec is not None else (None,) * len(op.input)
        results = spec.outputs if spec is not None else (None,) * len(op.output)
        facts = _facts(op, inputs, results, findings.parameters, data)
        facts |= _cost_facts(None if spec is None else spec.cost)
        if position < len(findings.rows):
            facts |= row_facts(findings.rows[position])
        facts |= findings.times.get(position, {})
        origins = findings.origins[position] if position < len(findings.origins) else (origin_of(op),)
        if len(origins) > 1:
            facts["u"] = list(origins)
        ops.append(_drawn(op, origins, told, facts, data))
    return NetDrawn(tuple(ops), wiring_of(net.op), tuple(data), tuple(outputs))


def rows_drawn(
    rows: Sequence[Row],
    parameters: Mapping[str, Spec | None],
    times: Mapping[int, Facts],
    data: Collection[str],
    outputs: Collection[str],
) -> NetDrawn:
    """Return what is drawn of the steps that a plan runs."""
    told = _Once()
    ops: list[Drawn] = []
    definitions = list(map(_definition, rows))
    wiring = wiring_of(definitions)
    parameters = {**dict.fromkeys(wiring.readers), **parameters}
    for position, (row, op) in enumerate(zip(rows, definitions, strict=True)):
        facts = _facts(op, [one.spec for one in row.reads], [one.spec for one in row.writes], parameters, data)
        if facts["f"] == UNKNOWN:  # a step of the plan's own, which is no operator
            facts["f"] = row.operator
        facts |= _cost_facts(row.cost) | row_facts(row) | times.get(position, {})
        if len(row.fused_from) > 1:
            facts["u"] = list(row.fused_from)
        ops.append(_drawn(op, row.fused_from, told, facts, data))
    return NetDrawn(tuple(ops), wiring, tuple(data), tuple(outputs))


def _definition(row: Row) -> OperatorDef:
    """Return what a step runs as an operator on the blobs that it reads and writes."""
    op = OperatorDef()
    if row.definition is not None:
        op.CopyFrom(row.definition)
    op.type = row.operator
    op.input[:] = [one.name for one in row.reads]
    op.output[:] = [one.name for one in row.writes]
    return op


def data_of(net: NetDef) -> list[str]:
    """Return the blobs that a net reads from outside and that are no parameters, as far as its operators tell.

    What a net within an operator reads is what that net takes it for.
    """
    try:
        found = [name for name, roles in roles_of(net).items() if comes_with_data(roles)]
        asked: set[str] = set()
        for op in net.op:
            nets = list(nested_nets(op))
            asked.update(op.input[:1] if nets else op.input)
            asked.update(name for inner in nets for name in data_of(inner))
        return [name for name in found if name in asked]
    except TazzaError:
        return list(net.external_input[:1])


def origin_of(op: OperatorDef) -> str:
    """Return the words by which rewriting tells an operator from others: type and first output."""
    return f"{op.type} {op.output[0]!r}" if op.output else op.type


class _Once:
    """Makes names different that are not."""

    def __init__(self) -> None:
        self._seen: defaultdict[Hashable, int] = defaultdict(int)

    def __call__(self, name: str) -> str:
        self._seen[name] += 1
        count = self._seen[name]
        return name if count == 1 else f"{name} {count}"


def _drawn(op: OperatorDef, origins: Sequence[str], told: _Once, facts: Facts, data: Collection[str]) -> Drawn:
    """Return an operator with the nets within it, of which nothing is known but their definitions."""
    try:
        nets = list(nested_nets(op))
    except FormatError:
        nets = []
    names = _nested_names(op)
    within = tuple(
        (names[number] if number < len(names) else f"net {number + 1}", _net_within(net, data))
        for number, net in enumerate(nets)
    )
    arguments = sorted((argument.name, argument.SerializeToString(deterministic=True)) for argument in op.arg)
    stays = told(origins[0] if origins else origin_of(op))
    return Drawn((op.type, *arguments), stays, facts, tuple(origins), within)


def _net_within(net: NetDef, data: Collection[str]) -> NetDrawn:
    inputs = dict.fromkeys((*data_of(net), *data))
    return net_drawn(net, Findings(), tuple(inputs), tuple(net.external_output))


def _nested_names(op: OperatorDef) -> list[str]:
    """Return a name for each net within an operator: the argument that holds it, with a number where it has several."""
    found: list[str] = []
    for argument in op.arg:
        if argument.HasField("n"):
            found.append(argument.name)
        found.extend(f"{argument.name} {number + 1}" for number in range(len(argument.nets)))
    return found


# -- facts -------------------------------------------------------------------------------------------------------------


def _facts(
    op: OperatorDef,
    inputs: Sequence[Spec | None],
    outputs: Sequence[Spec | None],
    parameters: Mapping[str, Spec | None],
    data: Collection[str],
) -> Facts:
    schema = SCHEMAS.get(op.type)
    letters = _letters(op)
    found: Facts = {"t": op.type, "f": UNKNOWN if schema is None else family_of(schema)}
    if schema is not None:
        found["d"] = schema.doc.strip().split("\n\n")[0].replace("\n", " ")
    specs = [spec if spec is not None else parameters.get(name) for name, spec in zip(op.input, inputs, strict=True)]
    found["i"] = [
        [name, _spec_text(spec), letter, int(name in parameters and name not in data)]
        for name, spec, letter in zip(op.input, specs, letters[0], strict=True)
    ]
    found["o"] = [
        [name, _spec_text(spec), letter] for name, spec, letter in zip(op.output, outputs, letters[1], strict=True)
    ]
    owned = {name: spec for name, spec in zip(op.input, specs, strict=True) if name in parameters and name not in data}
    count = sum(spec.size for spec in owned.values() if isinstance(spec, TensorSpec) and spec.shape_known)
    arguments = [[argument.name, _argument(argument)] for argument in op.arg]
    texts = {
        "n": op.name,
        "g": op.debug_info,
        "v": _device(op),
        "a": arguments,
        "p": count,
        "x": list(op.control_input),
    }
    return found | {key: value for key, value in texts.items() if value}


def _letters(op: OperatorDef) -> tuple[Sequence[str], Sequence[str]]:
    schema = SCHEMAS.get(op.type)
    try:
        if schema is not None:
            view = schema.typed_view(op)
            return view.input_letters, view.output_letters
    except TazzaError:
        pass
    return [""] * len(op.input), [""] * len(op.output)


def _spec_text(spec: Spec | None) -> str:
    if isinstance(spec, TensorSpec):
        dims = "..." if spec.dims is None else f" {TIMES} ".join("?" if one is None else str(one) for one in spec.dims)
        return f"{spec.dtype.label} {dims}".rstrip() if spec.dims != () else f"{spec.dtype.label} scalar"
    return "" if spec is None else str(spec)


def _argument(argument: Any) -> str:
    try:
        text = argument_text(argument)
    except FormatError:
        nets = len(argument.nets) + argument.HasField("n")
        return f"{nets} net{'s' if nets > 1 else ''}" if nets else "a tensor"
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]} … ({len(text)} characters)"


def _device(op: OperatorDef) -> str:
    option = op.device_option
    return "" if not option.device_type else f"device type {option.device_type}, {option.device_id}"


def _cost_facts(cost: Cost | None) -> Facts:
    return {} if cost is None else {"c": cost.flops, "b": [cost.bytes_read, cost.bytes_written]}


def row_facts(row: Row) -> Facts:
    """Return what a run tells of a step: engine, implementation, layout, and what every engine answered."""
    found: Facts = {"e": row.engine, "q": list(map(_choice, row.choices)), "k": row.bytes_written}
    written = next((one.spec for one in row.writes if isinstance(one.spec, TensorSpec)), None)
    texts: Facts = {"m": row.implementation, "l": "" if written is None else layout_name(written)}
    texts["z"] = row.slices if row.slices > 1 else 0
    return found | {key: value for key, value in texts.items() if value}


def _choice(choice: Choice) -> list[Any]:
    """Return engine, reason (empty: taken), estimate and time of a search in µs, and whether it was asked for."""
    times = [None if one is None else round(one / 1e3, 3) for one in (choice.estimate_ns, choice.searched_ns)]
    return [choice.engine, "" if choice.reason is None else choice.reason, *times, int(choice.wanted)]


def time_facts(profile: Profile) -> dict[int, Facts]:
    """Return for each step of a profile, by its position, the median of its seconds, how they vary, and its lanes."""
    runs: defaultdict[int, list[float]] = defaultdict(list)
    lanes: defaultdict[int, set[str]] = defaultdict(set)
    for one in profile.occurrences:
        runs[one.step.position].append(one.time_s)
        lanes[one.step.position].add(one.lane)
    return {position: _times(seconds, lanes[position]) for position, seconds in runs.items()}


def _times(seconds: Sequence[float], lanes: Iterable[str]) -> Facts:
    rounded: Callable[[float], float] = lambda value: float(f"{value:.4g}")  # noqa: E731 -- a word for three uses
    return {
        "s": rounded(statistics.median(seconds)),
        "sd": rounded(statistics.pstdev(seconds)),
        "mn": rounded(min(seconds)),
        "r": len(seconds),
        "w": sorted(lanes),
    }
