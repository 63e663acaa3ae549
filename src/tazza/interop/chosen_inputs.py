"""Which blobs of a net are its inputs: what nobody makes, and what an init net makes only so that it exists.

Init nets of Caffe2 make inputs in three ways: a single 0 (`GivenTensorFill`, by the exporter for phones), a
`ConstantFill` of shape (1,) (by the translator of Caffe's nets), and a whole example (by the translator of ONNX).
Nothing in a file tells them from parameters but where `external_input` lists them, first, and how they are read.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, UnknownOperatorError
from tazza.graph.roles import is_data_alone, roles_of
from tazza.operator import Effects, Spec, effects_of, find_argument, find_schema, read_first, touches
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.log import logger
from tazza.tensor import TensorSpec


def needed_blobs(net: NetDef) -> list[str]:
    """Return what a net needs from outside, declared external inputs first, in their order."""
    read = read_first(net.op, perhaps_made=True)
    declared = [name for name in net.external_input if name in read]
    return list(dict.fromkeys([*declared, *read]))


def check_inputs(net: NetDef, names: Sequence[str]) -> None:
    """Check that a net reads what somebody calls its inputs.

    Raises:
        ArgumentError: no operator reads one of them.
    """
    read = {name for op in net.op for name in touches(op).reads} if names else set[str]()
    strange = [name for name in names if name not in read]
    if strange:
        raise ArgumentError(
            f"net {net.name!r} has no input {strange[0]!r}",
            hint=f"inputs: {', '.join(net.external_input)}" if net.external_input else "name a blob it reads",
        )


@dataclass(frozen=True, slots=True)
class ChosenInputs:
    """The inputs of a net. `examples`: those among them that the init net fills with more than one number."""

    names: tuple[str, ...]
    examples: tuple[str, ...] = ()


def choose_inputs(init: NetDef, predict: NetDef, wanted: Sequence[str] | None = None) -> ChosenInputs:
    """Return the inputs of a predict net beside its init net; `wanted` says them in place of the rules below.

    What the init net does not make is an input. Of what it makes, the first ones that `external_input` lists are, if
    they are read as data and never as a parameter (or stand last in the init net, as exporters write them), and a fill
    makes them: of one number; or, where there would be no input at all, of any size. The log tells of the latter, which
    may be a constant as well.
    """
    filled = _fills(init)
    if wanted is not None:
        return ChosenInputs(tuple(wanted), tuple(n for n in wanted if n in filled and not _is_single(filled[n])))
    made = {name for op in init.op for name in touches(op).writes}
    read = needed_blobs(predict)
    listed = [name for name in dict.fromkeys(predict.external_input) if name in read]
    held = _held_places(init)
    roles = roles_of(predict)
    front = list(itertools.takewhile(lambda n: n in filled and (n in held or is_data_alone(roles[n])), listed))
    single = list(itertools.takewhile(lambda name: _is_single(filled[name]), front))
    names = tuple(name for name in read if name not in made or name in single)
    if names or not front:
        if single:
            logger.info("net %r: the init net holds the place of %s, an input", predict.name, ", ".join(single))
        return ChosenInputs(names)
    logger.warning(
        "net %r: nothing says what its inputs are; %s, listed first and filled by the init net, is taken for an "
        "example; inputs=[...] (--input) says it otherwise",
        predict.name,
        ", ".join(front),
    )
    return ChosenInputs(tuple(front), tuple(front))


def _fills(init: NetDef) -> dict[str, Spec | None]:
    """Return what operators without inputs make that draw nothing, unless others write it too."""
    found: dict[str, Spec | None] = {}
    times = Counter(name for op in init.op for name in touches(op).writes)
    for op in init.op:
        if not op.input and _is_declared(op) and effects_of(op) is Effects.PURE:
            found.update(zip(op.output, _specs(op), strict=True))
    return {name: spec for name, spec in found.items() if times[name] == 1}


def _held_places(init: NetDef) -> set[str]:
    """Return what exporters make so that it exists: they write single zeros, last of all."""
    zeros: set[str] = set()
    for op in reversed(init.op):
        values = find_argument(op, "values")
        if op.input or values is None or list(values.floats) != [0.0]:
            break
        zeros.update(op.output)
    return zeros


def _specs(op: OperatorDef) -> tuple[Spec | None, ...]:
    schema = find_schema(op.type)
    return schema.infer_specs(schema.view(op), []).specs


def _is_declared(op: OperatorDef) -> bool:
    """Whether somebody declares an operator; nets with others can be looked at."""
    try:
        find_schema(op.type)
    except UnknownOperatorError:
        return False
    return True


def _is_single(spec: Spec | None) -> bool:
    return isinstance(spec, TensorSpec) and spec.shape_known and spec.size == 1
