"""The backward pass: gradient operators for a list of operators, by the chain rule over their versioned blobs.

The operators are visited from last to first. Each one that has a gradient on some output gives gradient operators
(`tazza.operator.gradient`) and the gradients of its inputs. Each such gradient is one *contribution* to the gradient
of a version of a blob; when the first reader of that version has been visited, all contributions are there and are
summed:

- dense ones by a `Sum` in place of the first contribution; the others are renamed `_<gradient>_autosplit_<n>`, also
  when one operator that reads a blob twice writes several under one name,
- sparse ones by concatenating indices and values.

A contribution is what an operator's maker leaves under a name; what it writes there on the way is its own affair, and
goes by the same name, also where that is changed (`tazza.graph.gradient_names`).

Names, order and marks are those that Caffe2 gives, so that saved training nets are the same; where Caffe2 leaves an
order to chance (several Sums after one operator), ours is the order of the operator's inputs.

Gradient operators read blobs of the forward pass by name. So it is an error when a blob that one of them needs has
been overwritten since. A gradient that stands for several blobs (`Sum` passes its own on) is not overwritten while one
of them waits for it: what would be written there gets another name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from tazza.data_class import dataclass
from tazza.device import scoped_device
from tazza.errors import ArgumentError, GradientError
from tazza.graph.gradient_names import Made, Names, marked, unmarked
from tazza.graph.versions import VersionedOps, Versions
from tazza.operator import SCHEMAS, Gradient, RowSlices, find_schema, gradient_name, operator_def, read_first, touches
from tazza.operator.gradient import (
    DERIVATIVE,
    Derivative,
    GradientKind,
    GradientRequest,
    GradientRule,
    NoGradient,
    answered_request,
    told_request,
)
from tazza.operator.touches import all_named, as_named
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.runtime.log import logger

AUTO_SUM_MARK = "is_auto_gen_sum_ops:1"
"""In `device_option.extra_info` of the operators that add contributions."""


@dataclass(slots=True)
class _Part:
    """A dense gradient, or the indices or values of a sparse one; `made_by` is None where it is passed through."""

    name: str
    made_by: Made | None

    @property
    def present(self) -> str:
        """The name that it has by now."""
        return self.name if self.made_by is None else self.made_by.name


@dataclass(slots=True)
class _Contribution:
    """One gradient of one version of a blob: one part when dense, indices and values when sparse."""

    parts: tuple[_Part, ...]
    device: DeviceOption

    @property
    def sparse(self) -> bool:
        return len(self.parts) == 2

    def base_name(self) -> str | None:
        """Name under which a sum goes when this contribution comes first; None when nobody makes it here."""
        for part, suffix in zip(self.parts, ("_indices", "_values") if self.sparse else ("",), strict=True):
            if part.made_by is not None:
                return part.made_by.name.removesuffix(suffix)
        return None


@dataclass(slots=True)
class _Pass:
    """State of one backward pass: the gradient of each blob, and the version of the blob that it belongs to."""

    ssa: VersionedOps
    gradients: dict[str, Gradient] = field(default_factory=dict[str, Gradient])
    version_of_gradient: dict[str, int] = field(default_factory=dict[str, int])
    contributions: defaultdict[tuple[str, int], list[_Contribution]] = field(default_factory=lambda: defaultdict(list))
    lost: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    emitted: list[OperatorDef] = field(default_factory=list[OperatorDef])
    names: Names = field(init=False)

    def __post_init__(self) -> None:
        """Start with no gradient named."""
        self.names = Names(self.ssa)


def backward_pass(
    ops: Iterable[OperatorDef], targets: Sequence[str] | Mapping[str, Gradient], *, scope: str = ""
) -> tuple[list[OperatorDef], dict[str, Gradient]]:
    """Return the gradient operators of `ops`, and for each blob that has one the gradient.

    Args:
        ops: the forward operators in order; not changed.
        targets: blobs to differentiate. A gradient that is not given (a list, or None) is started as ones by a
            `ConstantFill` that writes `<target>_autogen_grad`.
        scope: prefix of the names of such started gradients; Caffe2 puts the name scope there once more.

    >>> ops, gradients = backward_pass([operator_def("Relu", ["x"], ["y"])], {"y": "dy"})
    >>> ops[0].type, gradients["x"]
    ('ReluGradient', 'x_grad')

    Raises:
        GradientError: an operator's gradient is forbidden or missing, a blob that is needed was overwritten, dense
            and sparse gradients of one blob meet, or the output of a StopGradient is never read.
        SchemaError, ArgumentError: an operator is not legal, or `targets` is one text.
    """
    if isinstance(targets, str):
        raise ArgumentError(f"targets is the text {targets!r}, not a list", hint=f"pass [{targets!r}]")
    state = _passed(all_named(ops), targets if isinstance(targets, Mapping) else dict.fromkeys(targets), scope)
    return state.emitted, {name: gradient for name, gradient in state.gradients.items() if gradient is not None}


def derivative(net: NetDef, targets: Mapping[str, Gradient]) -> Derivative:
    """Return the gradient operators of a net, and the gradients of what it takes over from before it ran.

    Raises:
        GradientError: as `backward_pass`.
    """
    state = _passed(all_named(net.op, targets), targets, "")
    taken_over = {name for name in read_first(net.op) if state.version_of_gradient.get(name) == 0}
    given = taken_over | (targets.keys() - state.ssa.writers_of)
    return Derivative(tuple(state.emitted), {name: state.gradients[name] for name in state.gradients if name in given})


DERIVATIVE.fill(derivative)


def _passed(ops: Iterable[OperatorDef], targets: Mapping[str, Gradient], scope: str) -> _Pass:
    """Return the state after a backward pass; operators with nets within name all that these touch."""
    state = _Pass(VersionedOps(ops))
    _check_stops(state.ssa)
    _start(state, targets, scope)
    for position in reversed(range(len(state.ssa.ops))):
        _visit(state, position)
        _accumulate(state, position)
    return state


def _check_stops(ssa: VersionedOps) -> None:
    for versions in ssa.ops:
        unread = [name for name in versions.op.output if not ssa.is_read(name)]
        schema = SCHEMAS.get(versions.op.type) if unread else None
        rule = None if schema is None else schema.gradient_rule
        if isinstance(rule, NoGradient) and rule.kind is GradientKind.STOPS:
            raise GradientError(
                f"nothing reads {unread[0]!r}, the output of {versions.op.type}",
                hint="it stops nothing: write it in place, or read its output",
            )


def _is_unasked(op: OperatorDef) -> bool:
    """Whether the gradient of an operator is made even where nothing gives those of its outputs."""
    schema = SCHEMAS.get(op.type)
    rule = None if schema is None else schema.gradient_rule
    return isinstance(rule, GradientRule) and rule.unasked


def _start(state: _Pass, targets: Mapping[str, Gradient], scope: str) -> None:
    """Enter the gradients of the targets; the caller counts as the last reader of each, and gives a contribution."""
    for name, gradient in targets.items():
        version = state.ssa.last.setdefault(name, 0)
        state.version_of_gradient[name] = version
        state.ssa.readers[name, version].append(len(state.ssa.ops))
        if gradient is None:
            start = operator_def(
                "ConstantFill", [name], [f"{scope}{name}_autogen_grad"], device=scoped_device(), value=1.0
            )
            state.emitted.append(start)
            gradient = start.output[0]
            parts, device = (_Part(gradient, Made(gradient, start, [(start, True, 0)])),), start.device_option
        else:
            writer = state.ssa.writers.get((name, version))
            parts = tuple(_Part(one, None) for one in _names(gradient))
            device = DeviceOption() if writer is None else state.ssa.ops[writer].op.device_option
        state.contributions[name, version].append(_Contribution(parts, device))
        state.gradients[name] = gradient
        state.names.give((name, version), _names(gradient))


def _visit(state: _Pass, position: int) -> None:
    """Emit the gradient operators of one forward operator, and note what they contribute."""
    versions = state.ssa.ops[position]
    op = versions.op
    given = [_gradient_of(state, name, versions.written[name]) for name in op.output]
    _pass_loss(state, versions)
    if all(gradient is None for gradient in given) and not _is_unasked(op):
        return
    emitted, request = _answered(op, given)
    state.lost |= {(op.input[i], versions.read[op.input[i]]): why for i, why in request.lost.items()}
    reads = read_first((as_named(op, touches(op)) for op in emitted), perhaps_made=True)
    _check_asked(request, reads)
    _check_reads(state, versions, emitted, given, reads)
    told = {name: blob for name, blob in zip(given, op.output, strict=True) if isinstance(name, str)}
    state.names.keep_awaited(emitted, position, told)
    passed_on = {part for gradient in request.input_gradients for part in _names(gradient)}
    made = state.names.settle(emitted, position, _owners(op, request.input_gradients), passed_on)
    for _, index in sorted((_last_write(gradient, made), i) for i, gradient in enumerate(request.input_gradients)):
        name, gradient = op.input[index], _settled(request.input_gradients[index], made)
        if gradient is not None:
            _contribute(state, versions, name, request.input_gradients[index], made)
            state.version_of_gradient[name] = versions.read[name]
        # A missing gradient only hides an earlier one when the operator overwrote the blob, which made that gradient
        # another version's.
        if gradient is not None or name not in state.gradients or name in op.output:
            state.gradients[name] = gradient
    state.emitted.extend(emitted)
    for one in made.values():
        one.home = state.emitted


def _answered(op: OperatorDef, given: Sequence[Gradient]) -> tuple[list[OperatorDef], GradientRequest]:
    """Return the gradient operators of one operator, and the request that was answered with them."""
    schema = SCHEMAS.get(op.type)
    told = told_request(op, given, None if schema is None else schema.gradient_rule)
    return answered_request(find_schema(op.type).view(op), given, marked) if told is None else told


def _owners(op: OperatorDef, gradients: Sequence[Gradient]) -> dict[str, str]:
    """Return the input that each gradient is of, under the name that a maker was told or has chosen itself."""
    told = {marked(blob, index): blob for index, blob in enumerate(op.input)}
    return {name: blob for name, blob in zip(gradients, op.input, strict=True) if isinstance(name, str)} | told


def _gradient_of(state: _Pass, name: str, version: int) -> Gradient:
    """Return the gradient of one version of a blob; that of a later one, which nobody read, is none of its."""
    return state.gradients.get(name) if state.version_of_gradient.get(name) == version else None


def _last_write(gradient: Gradient, made: Mapping[str, Made]) -> int:
    """Return where among the writes of a maker a gradient is complete; what is passed through comes last."""
    return max((made[part].order if part in made else len(made) for part in _names(gradient)), default=len(made))


def _settled(gradient: Gradient, made: Mapping[str, Made]) -> Gradient:
    """Return a gradient under the names that the operators have now."""
    names = [made[part].name if part in made else part for part in _names(gradient)]
    return RowSlices(*names) if len(names) == 2 else names[0] if names else None


def _contribute(state: _Pass, versions: Versions, name: str, gradient: Gradient, made: Mapping[str, Made]) -> None:
    """Note a gradient of the version of `name` that was read; on the device of who makes it, here or before."""
    key = name, versions.read[name]
    makers = [made.get(part) for part in _names(gradient)]
    pairs = zip(_names(gradient), makers, strict=True)
    parts = tuple(_Part(part if one is None else one.name, one) for part, one in pairs)
    maker = next((one.op for one in makers if one is not None), versions.op)
    state.contributions[key].append(_Contribution(parts, maker.device_option))
    state.names.hold(key, (part.name for part in parts))


def _pass_loss(state: _Pass, versions: Versions) -> None:
    """Where the gradient of an output is lost, so are those of the inputs of an operator that is differentiable."""
    reasons = [state.lost[key] for key in versions.written.items() if key in state.lost]
    if reasons and isinstance(find_schema(versions.op.type).gradient_rule, GradientRule):
        state.lost |= dict.fromkeys(versions.read.items(), reasons[0])


def _check_asked(request: GradientRequest, reads: Iterable[str]) -> None:
    """Check that a maker has asked for each blob of its operator that the gradient operators read."""
    asked = set(request.asked)
    for derivative, names in request.derived:
        asked.update(names.get(name, name) for name in read_first(derivative.ops, perhaps_made=True))
    definition = request.definition
    for name in reads:
        if name not in asked and (name in definition.input or name in definition.output):
            raise GradientError(
                f"the gradient of {definition.type} reads {name!r}, for which its maker did not ask the request",
                hint="take it by its letter or by g.I(i), g.O(i); where only its shape is read, by g.like(i)",
            )


def _check_reads(
    state: _Pass,
    versions: Versions,
    emitted: Sequence[OperatorDef],
    given: Sequence[Gradient],
    reads: Iterable[str],
) -> None:
    """Check that every blob that the gradient operators read still holds what they need."""
    outputs_of = {name: versions.op.output[i] for i, gradient in enumerate(given) for name in _names(gradient)}
    for name in reads:
        if name in outputs_of:
            blob = outputs_of[name]
            _check_version(versions, name, blob, versions.written[blob], state.version_of_gradient.get(blob, 0))
        elif name in versions.written:
            _check_version(versions, name, name, versions.written[name], state.ssa.last[name])
        elif name in versions.read:
            _check_version(versions, name, name, versions.read[name], state.ssa.last[name])
        else:
            reader = next(op for op in emitted if name in op.input)
            what = f"{reader.type} reads {unmarked(name)!r}"
            raise GradientError(f"{what}, which neither {versions.op.type} nor one of its gradient operators has")


def _check_version(versions: Versions, name: str, blob: str, needed: int, present: int) -> None:
    if needed != present:
        what = f"{name!r}" if name == blob else f"{name!r}, the gradient of {blob!r},"
        raise GradientError(
            f"the gradient of {versions.op.type} needs {what} as it was after {needed} writes, "
            f"it has been written {present} times since it first appeared",
            hint=f"do not overwrite {blob!r}: give later outputs a name of their own",
        )


def _accumulate(state: _Pass, position: int) -> None:
    """Sum the contributions to inputs of which this operator was the first reader."""
    versions = state.ssa.ops[position]
    for name in dict.fromkeys(versions.op.input):
        key = name, versions.read[name]
        readers, listed = state.ssa.readers[key], state.contributions[key]
        if position != readers[0]:
            continue
        _check_lost(state, key, listed)
        if len(readers) <= 1:
            continue
        if len({c.sparse for c in listed}) > 1:
            raise GradientError(
                f"blob {name!r} has dense and sparse gradients, they cannot be added", hint="read it densely everywhere"
            )
        if len(listed) < 2:
            continue
        _check_devices(name, listed)
        state.gradients[name] = _sum(state, key, listed, position)


def _check_lost(state: _Pass, key: tuple[str, int], listed: Sequence[_Contribution]) -> None:
    """Check that what a maker could not give is no part of a gradient that is asked for."""
    if key not in state.lost:
        return
    if listed:
        hint = "give the output a name of its own"
        raise GradientError(f"a part of the gradient of {key[0]!r} {state.lost[key]}", hint=hint)
    if key not in state.ssa.writers:
        logger.warning("blob %r gets no gradient: that %s", key[0], state.lost[key])


def _check_devices(name: str, listed: Sequence[_Contribution]) -> None:
    devices = {(c.device.device_type, c.device.device_id if c.device.device_type else 0) for c in listed}  # one host
    if len(devices) > 1:
        raise GradientError(
            f"gradients of {name!r} are made on different devices {sorted(devices)}", hint="copy to one device first"
        )


def _sum(state: _Pass, key: tuple[str, int], listed: Sequence[_Contribution], position: int) -> Gradient:
    named = (contribution.base_name() for contribution in listed)
    base = next((one for one in named if one is not None), None)
    if base is None:
        base = state.names.free(gradient_name(key[0]), position, key[0])
    passed_on = {part.name for contribution in listed for part in contribution.parts if part.made_by is None}
    if base in passed_on:  # the gradient of an output in place: others may read it yet
        base = state.names.anew(base)
    state.names.release(key, (part.name for contribution in listed for part in contribution.parts))
    add = _concatenated if listed[0].sparse else _added
    ops, gradient = add(state.names, listed, base)
    for op in ops:
        op.device_option.CopyFrom(listed[0].device)
        op.device_option.extra_info.append(AUTO_SUM_MARK)
    state.emitted.extend(ops)
    state.names.hold(key, _names(gradient))
    return gradient


def _added(given: Names, listed: Sequence[_Contribution], base: str) -> tuple[list[OperatorDef], Gradient]:
    """Sum dense contributions into `base`; the first made here keeps its name, the others get one of their own."""
    names: list[str] = []
    renamed: int | None = None
    for (part,) in (contribution.parts for contribution in listed):
        if part.made_by is not None:
            if renamed is not None:
                given.split(part.made_by, renamed)
            renamed = 0 if renamed is None else renamed + 1
        names.append(part.present)
    if base in names:  # Sum may overwrite its first input only
        first = names.index(base)
        names[0], names[first] = names[first], names[0]
    return [operator_def("Sum", names, [base])], base


def _concatenated(given: Names, listed: Sequence[_Contribution], base: str) -> tuple[list[OperatorDef], Gradient]:
    """Concatenate sparse contributions; rows that occur twice stay twice."""
    ops: list[OperatorDef] = []
    for position, kind in enumerate(("indices", "values")):
        names: list[str] = []
        renamed = 0
        for part in (contribution.parts[position] for contribution in listed):
            if part.made_by is not None:
                given.split(part.made_by, renamed)
                renamed += 1
            names.append(part.present)
        ops.append(operator_def("Concat", names, [f"{base}_{kind}_concat", f"{base}_{kind}_concat_split"], axis=0))
    return ops, RowSlices(f"{base}_indices_concat", f"{base}_values_concat")


def _names(gradient: Gradient) -> tuple[str, ...]:
    if gradient is None:
        return ()
    return (gradient.indices, gradient.values) if isinstance(gradient, RowSlices) else (gradient,)
