"""The backward pass: gradient operators for a list of operators, by the chain rule over their versioned blobs.

The operators are visited from last to first. Each one that has a gradient on some output gives gradient operators
(`tazza.operator.gradient`) and the gradients of its inputs. Each such gradient is one *contribution* to the gradient
of a version of a blob; when the first reader of that version has been visited, all contributions are there and are
summed:

- dense ones by a `Sum` in place of the first contribution; the others are renamed `_<gradient>_autosplit_<n>`, also
  when one operator that reads a blob twice writes several under one name,
- sparse ones by concatenating indices and values.

Names, order and marks are those that Caffe2 gives, so that saved training nets are the same; where Caffe2 leaves an
order to chance (several Sums after one operator), ours is the order of the operator's inputs.

Gradient operators read blobs of the forward pass by name. So it is an error when a blob that one of them needs has
been overwritten since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tazza.device import scoped_device
from tazza.errors import ArgumentError, GradientError
from tazza.graph.versions import VersionedOps, Versions
from tazza.operator import Gradient, RowSlices, find_schema, gradient_for_op, operator_def
from tazza.proto import DeviceOption, OperatorDef

AUTO_SUM_MARK = "is_auto_gen_sum_ops:1"
"""In `device_option.extra_info` of the operators that add contributions."""


@dataclass(slots=True, eq=False)
class _Slot:
    """An output of a gradient operator, which may still be renamed."""

    op: OperatorDef
    index: int

    @property
    def name(self) -> str:
        return self.op.output[self.index]

    def rename(self, number: int) -> None:
        self.op.output[self.index] = f"_{self.name}_autosplit_{number}"


@dataclass(slots=True)
class _Part:
    """A dense gradient, or the indices or values of a sparse one; `slot` makes it, None where it is passed through."""

    name: str
    slot: _Slot | None


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
            if part.slot is not None:
                return part.slot.name.removesuffix(suffix)
        return None


@dataclass(slots=True)
class _Pass:
    """State of one backward pass: the gradient of each blob, and the version of the blob that it belongs to."""

    ssa: VersionedOps
    gradients: dict[str, Gradient] = field(default_factory=dict[str, Gradient])
    version_of_gradient: dict[str, int] = field(default_factory=dict[str, int])
    contributions: defaultdict[tuple[str, int], list[_Contribution]] = field(default_factory=lambda: defaultdict(list))
    emitted: list[OperatorDef] = field(default_factory=list[OperatorDef])


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
    state = _Pass(VersionedOps(ops))
    _check_stops(state.ssa)
    _start(state, targets if isinstance(targets, Mapping) else dict.fromkeys(targets), scope)
    for position in reversed(range(len(state.ssa.ops))):
        _visit(state, position)
        _accumulate(state, position)
    return state.emitted, {name: gradient for name, gradient in state.gradients.items() if gradient is not None}


def _check_stops(ssa: VersionedOps) -> None:
    for versions in ssa.ops:
        if versions.op.type == "StopGradient" and not ssa.is_read(versions.op.output[0]):
            name = versions.op.output[0]
            raise GradientError(
                f"nothing reads {name!r}, the output of StopGradient",
                hint="it stops nothing: write it in place, or read its output",
            )


def _start(state: _Pass, targets: Mapping[str, Gradient], scope: str) -> None:
    """Enter the gradients of the targets; the caller counts as the last reader of each."""
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
            state.contributions[name, version].append(
                _Contribution((_Part(gradient, _Slot(start, 0)),), start.device_option)
            )
        state.gradients[name] = gradient


def _visit(state: _Pass, position: int) -> None:
    """Emit the gradient operators of one forward operator, and note what they contribute."""
    versions = state.ssa.ops[position]
    op = versions.op
    given = [state.gradients.get(name) for name in op.output]
    if all(gradient is None for gradient in given) and op.type != "ZeroGradient":
        return
    emitted, input_gradients = gradient_for_op(find_schema(op.type).view(op), given)
    local = _check_reads(state, versions, emitted, given)
    for position_in, gradient in enumerate(input_gradients):
        name = op.input[position_in]
        if gradient is not None:
            _contribute(state, versions, name, gradient, local)
            state.version_of_gradient[name] = versions.read[name]
        # A missing gradient only hides an earlier one when the operator overwrote the blob, which made that gradient
        # another version's.
        if gradient is not None or name not in state.gradients or name in op.output:
            state.gradients[name] = gradient
    state.emitted.extend(emitted)


def _check_reads(
    state: _Pass, versions: Versions, emitted: Sequence[OperatorDef], given: Sequence[Gradient]
) -> dict[str, list[_Slot]]:
    """Check that every blob that the gradient operators read still holds what they need; return who writes what."""
    outputs_of = {name: versions.op.output[i] for i, gradient in enumerate(given) for name in _names(gradient)}
    local: defaultdict[str, list[_Slot]] = defaultdict(list)
    for op in emitted:
        for name in op.input:
            if name in outputs_of:
                blob = outputs_of[name]
                _check_version(versions, name, blob, versions.written[blob], state.version_of_gradient.get(blob, 0))
            elif name in versions.written:
                _check_version(versions, name, name, versions.written[name], state.ssa.last[name])
            elif name in versions.read:
                _check_version(versions, name, name, versions.read[name], state.ssa.last[name])
            elif name not in local:
                raise GradientError(
                    f"{op.type} reads {name!r}, which neither {versions.op.type} nor one of its gradient operators has"
                )
        for position, name in enumerate(op.output):
            local[name].append(_Slot(op, position))
    return local


def _check_version(versions: Versions, name: str, blob: str, needed: int, present: int) -> None:
    if needed != present:
        what = f"{name!r}" if name == blob else f"{name!r}, the gradient of {blob!r},"
        raise GradientError(
            f"the gradient of {versions.op.type} needs {what} as it was after {needed} writes, "
            f"it has been written {present} times since it first appeared",
            hint=f"do not overwrite {blob!r}: give later outputs a name of their own",
        )


def _contribute(
    state: _Pass, versions: Versions, name: str, gradient: str | RowSlices[str], local: Mapping[str, list[_Slot]]
) -> None:
    """Note the gradients of the version of `name` that was read; on the device of who makes them, here or before."""
    listed = state.contributions[name, versions.read[name]]
    for parts in _made_by(gradient, local):
        maker = next((part.slot.op for part in parts if part.slot is not None), versions.op)
        # An operator that reads a blob twice names one gradient for both.
        if not _already_listed(listed, parts):
            listed.append(_Contribution(parts, maker.device_option))


def _made_by(gradient: str | RowSlices[str], local: Mapping[str, list[_Slot]]) -> list[tuple[_Part, ...]]:
    """Return the parts of a gradient; of a dense one as often as it is written here."""
    if isinstance(gradient, RowSlices):
        return [tuple(_Part(part, local[part][-1] if part in local else None) for part in _names(gradient))]
    if gradient not in local:
        return [(_Part(gradient, None),)]
    return [(_Part(gradient, slot),) for slot in local[gradient]]


def _already_listed(listed: Sequence[_Contribution], parts: Sequence[_Part]) -> bool:
    known = [part.slot for contribution in listed for part in contribution.parts if part.slot is not None]
    return any(part.slot in known for part in parts)


def _accumulate(state: _Pass, position: int) -> None:
    """Sum the contributions to inputs of which this operator was the first reader."""
    versions = state.ssa.ops[position]
    for name in dict.fromkeys(versions.op.input):
        key = name, versions.read[name]
        readers, listed = state.ssa.readers[key], state.contributions[key]
        if len(readers) <= 1 or position != readers[0]:
            continue
        if len({c.sparse for c in listed}) > 1:
            raise GradientError(
                f"blob {name!r} has dense and sparse gradients, they cannot be added", hint="read it densely everywhere"
            )
        if len(listed) < 2:
            continue
        _check_devices(name, listed)
        state.gradients[name] = _sum(state, name, listed)


def _check_devices(name: str, listed: Sequence[_Contribution]) -> None:
    devices = {(c.device.device_type, c.device.device_id) for c in listed}
    if len(devices) > 1:
        raise GradientError(
            f"gradients of {name!r} are made on different devices {sorted(devices)}", hint="copy to one device first"
        )


def _sum(state: _Pass, name: str, listed: Sequence[_Contribution]) -> Gradient:
    base = next((b for b in (c.base_name() for c in listed) if b is not None), f"{name}_grad")
    add = _concatenated if listed[0].sparse else _added
    ops, gradient = add(listed, base)
    for op in ops:
        op.device_option.CopyFrom(listed[0].device)
        op.device_option.extra_info.append(AUTO_SUM_MARK)
    state.emitted.extend(ops)
    return gradient


def _added(listed: Sequence[_Contribution], base: str) -> tuple[list[OperatorDef], Gradient]:
    """Sum dense contributions into `base`; the first made here keeps its name, the others get one of their own."""
    names: list[str] = []
    renamed: int | None = None
    for (part,) in (contribution.parts for contribution in listed):
        if part.slot is not None:
            if renamed is not None:
                part.slot.rename(renamed)
            renamed = 0 if renamed is None else renamed + 1
        names.append(_part_name(part, base))
    if base in names:  # Sum may overwrite its first input only
        first = names.index(base)
        names[0], names[first] = names[first], names[0]
    return [operator_def("Sum", names, [base])], base


def _concatenated(listed: Sequence[_Contribution], base: str) -> tuple[list[OperatorDef], Gradient]:
    """Concatenate sparse contributions; rows that occur twice stay twice."""
    ops: list[OperatorDef] = []
    for position, kind in enumerate(("indices", "values")):
        names: list[str] = []
        renamed = 0
        for part in (contribution.parts[position] for contribution in listed):
            if part.slot is not None:
                part.slot.rename(renamed)
                renamed += 1
            names.append(_part_name(part, base))
        ops.append(operator_def("Concat", names, [f"{base}_{kind}_concat", f"{base}_{kind}_concat_split"], axis=0))
    return ops, RowSlices(f"{base}_indices_concat", f"{base}_values_concat")


def _part_name(part: _Part, base: str) -> str:
    if part.slot is not None:
        return part.slot.name
    if part.name == base:
        raise GradientError(
            f"{base!r} is passed through and would be overwritten by the sum of the same name",
            hint="give the gradient another name",
        )
    return part.name


def _names(gradient: Gradient) -> tuple[str, ...]:
    if gradient is None:
        return ()
    return (gradient.indices, gradient.values) if isinstance(gradient, RowSlices) else (gradient,)
