"""What ranks exchange in a step: the gradients that the backward pass hands on, and statistics of the forward pass.

The backward pass is what stands from the first gradient operator to the last, and the sums of parts behind it. What it
makes and an operator behind it reads is a gradient that some update waits for, whole or of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tazza.data_class import dataclass
from tazza.errors import NetError
from tazza.operator import Role, find_schema, touches
from tazza.proto import NetDef, OperatorDef

PART = "_autosplit_"
"""In the names of parts of a gradient, which are summed."""


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Blobs that go around together: at once or, of a gradient of rows, indices and values.

    `ready` is the position of the operator behind which all of them are there, `needed` that of the first operator
    that reads or writes one of them then; the number of operators where none does.
    """

    blobs: tuple[str, ...]
    ready: int
    needed: int
    rows: bool = False


def backward_span(net: NetDef) -> range:
    """Return the positions of the backward pass.

    Raises:
        NetError: there is none, or a parameter is updated before it has ended.
    """
    marked = [position for position, op in enumerate(net.op) if op.is_gradient_op]
    if not marked:
        raise NetError(
            f"net {net.name!r} has no gradient operators", hint="data parallelism is for nets that train: add_gradients"
        )
    first, end = marked[0], marked[-1] + 1
    while end < len(net.op) and any(PART in name for name in net.op[end].input):
        end += 1
    return range(first, end)


def gradients_of(net: NetDef) -> list[Exchanged]:
    """Return what updates wait for, in the order in which the backward pass makes it.

    Raises:
        NetError: there is no backward pass, or a gradient is read as whole and as one of rows.
    """
    span = backward_span(net)
    made = _last_writes(net.op, span)
    found: dict[tuple[str, ...], Exchanged] = {}
    for position in range(span.stop, len(net.op)):
        op = net.op[position]
        indices = _indices_of(op)
        for name in touches(op).reads:
            if name not in made or name == indices:
                continue
            blobs = (name,) if indices is None else (indices, name)
            ready = max(made.get(one, span.start) for one in blobs)
            found.setdefault(blobs, Exchanged(blobs, ready, position, indices is not None))
        for name in touches(op).writes:
            made.pop(name, None)  # it is another blob from here on
    _check(net, found)
    return sorted(found.values(), key=lambda one: one.ready)


def _last_writes(ops: Sequence[OperatorDef], span: range) -> dict[str, int]:
    made: dict[str, int] = {}
    for position in span:
        made.update(dict.fromkeys(touches(ops[position]).writes, position))
    return made


def _indices_of(op: OperatorDef) -> str | None:
    """Return the blob that says which rows an update is for; None for one of a whole parameter."""
    by_letter = find_schema(op.type).view(op)
    for spec, name in zip(by_letter.input_letters, op.input, strict=False):
        if by_letter.schema.inputs_by_letter[spec].role is Role.INDEX:
            return name
    return None


def _check(net: NetDef, found: Mapping[tuple[str, ...], Exchanged]) -> None:
    seen: dict[str, Exchanged] = {}
    for one in found.values():
        other = seen.setdefault(one.blobs[-1], one)
        if other.blobs != one.blobs:
            raise NetError(
                f"net {net.name!r} reads the gradient {one.blobs[-1]!r} with {other.blobs} and with {one.blobs}",
                hint="let all updates of a parameter take rows by the same indices, or whole gradients",
            )


def statistics_of(net: NetDef, kept: Iterable[str]) -> list[str]:
    """Return blobs that the forward pass keeps from run to run and overwrites: running means and variances.

    `kept` are those that the net takes over from the run before.
    """
    known, found = set(kept), dict[str, None]()
    for op in net.op[: backward_span(net).start]:
        view = find_schema(op.type).view(op)
        for letter, name in zip(view.output_letters, op.output, strict=False):
            over = view.schema.must_in_place.get(letter)
            if over is not None and name in known and name in op.input:
                found[name] = None
    return list(found)


def in_buckets(gradients: Sequence[Exchanged], nbytes: Mapping[str, int], most: int) -> list[Exchanged]:
    """Join whole gradients that are ready one behind the other, up to `most` bytes; those of rows stay by themselves.

    >>> two = [Exchanged(("a",), 3, 9), Exchanged(("b",), 5, 8)]
    >>> in_buckets(two, {"a": 4, "b": 4}, 100)
    [Exchanged(blobs=('a', 'b'), ready=5, needed=8, rows=False)]
    """
    found: list[Exchanged] = []
    taken = 0
    for one in gradients:
        size = nbytes.get(one.blobs[0], 0)
        last = found[-1] if found else None
        if last is None or one.rows or last.rows or taken + size > most:
            found.append(one)
            taken = size
            continue
        found[-1] = Exchanged(
            (*last.blobs, *one.blobs), max(last.ready, one.ready), min(last.needed, one.needed), rows=False
        )
        taken += size
    return found


def along(buckets: Sequence[Exchanged], kept: Exchanged, net: NetDef) -> list[Exchanged]:
    """Let what is needed at the end of a step go along with the last bucket of whole gradients.

    It stays by itself where there is no such bucket, or where an operator behind that touches it.
    """
    last = max((one for one in buckets if not one.rows), key=lambda one: one.ready, default=None)
    if last is None or any(set(kept.blobs).intersection(touches(op).named) for op in net.op[last.ready + 1 :]):
        return [*buckets, kept]
    joined = Exchanged((*last.blobs, *kept.blobs), max(last.ready, kept.ready), last.needed)
    return [joined if one is last else one for one in buckets]
