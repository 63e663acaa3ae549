"""Nets that follow from a net that trains: the one that tests what it learned, and the one that predicts.

    test = net_that_tests(train, ["softmax", "loss"], parameters=names)
    predict = net_that_predicts(train, ["softmax"], parameters=names)

Both hold what makes their outputs and nothing else, so no gradients and no updates. Whatever has a training mode is
switched to test mode (`OpSchema.trains_unless`), and nothing writes a parameter: running them leaves the training as it
was, and what they give for a sample does not depend on the others of its batch. The net that predicts asks for no label
either: what makes an output together with a loss gives way to what makes it alone (`OpSchema.predicts`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from tazza.errors import NetError, SchemaError, TazzaError
from tazza.operator import find_schema, make_argument, read_first, touches
from tazza.operator.nested import change_nested, nested_nets
from tazza.proto import NetDef, OperatorDef

Rewrite = Callable[[OperatorDef, Collection[str]], list[OperatorDef]]
"""Takes an operator, and which blobs are needed of those behind it; returns what stands for it, in order."""


def needed_operators(net: NetDef, outputs: Sequence[str]) -> tuple[list[OperatorDef], list[str]]:
    """Return the operators that `outputs` depend on, in order, and the blobs that they read and do not make, likewise.

    Raises:
        NetError: no operator makes an output.
    """
    kept = _needed(net, outputs, lambda op, _: [op])
    return kept, list(read_first(kept, perhaps_made=True))


def net_that_tests(net: NetDef, outputs: Sequence[str], *, parameters: Iterable[str]) -> NetDef:
    """Return what of a net that trains makes `outputs`, in test mode.

    Args:
        net: trains, or tests already: then nothing but what the outputs do not need is missing afterwards.
        outputs: blobs that it makes; its declared outputs.
        parameters: blobs that must stay as they are: what the init net makes.

    Raises:
        NetError: no operator makes an output without writing a parameter.
        TazzaError: an operator is not legal, also in test mode; the message names it.
    """
    state = frozenset(parameters)
    return _with_operators(net, outputs, _needed(net, outputs, lambda op, needed: _tested(op, needed, state)))


def net_that_predicts(net: NetDef, outputs: Sequence[str], *, parameters: Iterable[str]) -> NetDef:
    """Return what of a net that trains makes `outputs`, in test mode and without labels where none are needed.

    Arguments and errors as `net_that_tests`.
    """
    state = frozenset(parameters)

    def rewrite(op: OperatorDef, needed: Collection[str]) -> list[OperatorDef]:
        tested = _tested(op, needed, state)
        return [part for one in tested for part in _predicting(one, needed)]

    return _with_operators(net, outputs, _needed(net, outputs, rewrite))


def _needed(net: NetDef, outputs: Sequence[str], rewrite: Rewrite) -> list[OperatorDef]:
    """Return the operators that `outputs` depend on, in order, each as it was rewritten."""
    needed = set(outputs)
    kept: list[OperatorDef] = []
    for position in reversed(range(len(net.op))):
        op = net.op[position]
        if not needed.intersection(touches(op).writes):
            continue
        try:
            made = rewrite(op, needed)
        except TazzaError as error:
            error.add_context(f"in operator {position} ({op.type}) of net {net.name!r}")
            raise
        for one in reversed(made):
            touched = touches(one)
            needed.difference_update(touched.certain)
            needed.update(touched.reads)
            kept.append(one)
    made_by_one = {name for op in kept for name in touches(op).writes}
    absent = [name for name in outputs if name not in made_by_one]
    if absent:
        raise NetError(
            f"no operator of net {net.name!r} makes the output {absent[0]!r}", hint="name a blob that the net writes"
        )
    return kept[::-1]


def _with_operators(net: NetDef, outputs: Sequence[str], operators: list[OperatorDef]) -> NetDef:
    """Return a net like `net` of these operators alone."""
    made = NetDef()
    made.CopyFrom(net)
    del made.op[:], made.external_input[:], made.external_output[:]
    made.op.extend(operators)
    made.external_input.extend(read_first(operators, perhaps_made=True))
    made.external_output.extend(outputs)
    return made


def _tested(op: OperatorDef, needed: Collection[str], state: frozenset[str]) -> list[OperatorDef]:
    """Return an operator in test mode; nothing where all that is needed of it is state, which stays as it was."""
    tested = _in_test_mode(op, needed)
    made = touches(tested).writes
    wanted = set(needed).intersection(made)
    written = state.intersection(made)
    if wanted <= written:
        return []
    if written:
        raise NetError(
            f"{op.type} makes {min(wanted - written)!r}, which is needed, and writes the parameter {min(written)!r}",
            hint="an operator that keeps statistics needs a test mode, see OpSchema.trains_unless",
        )
    return [tested]


def _in_test_mode(op: OperatorDef, needed: Collection[str]) -> OperatorDef:
    """Return an operator with its training mode off, without the outputs that only training makes; itself without."""
    schema = find_schema(op.type)
    mode = schema.training_mode
    if mode is None:
        return _with_nets_in_test_mode(op)
    tested = OperatorDef()
    tested.CopyFrom(op)
    del tested.arg[:]
    tested.arg.extend(argument for argument in op.arg if argument.name != mode.argument)
    tested.arg.append(make_argument(mode.argument, 1))
    letters = list(schema.typed_view(tested).output_letters)
    while letters[-1] in mode.outputs and (letters[-1] in schema.must_in_place or tested.output[-1] not in needed):
        del tested.output[-1], letters[-1]
    try:
        schema.view(tested)
    except SchemaError as error:
        left = [name for letter, name in zip(letters, tested.output, strict=True) if letter in mode.outputs]
        if not left:
            raise
        raise NetError(
            f"{op.type} makes no {left[-1]!r} with {mode.argument} = 1, and it is needed: {error.message}",
            hint="what only training computes cannot be read in a test",
        ) from error
    return tested


def _with_nets_in_test_mode(op: OperatorDef) -> OperatorDef:
    """Return an operator whose nets are in test mode; itself where it has none."""
    if next(nested_nets(op), None) is None:
        return op

    def switch(net: NetDef) -> None:
        needed = {*op.output, *(name for inner in net.op for name in touches(inner).reads)}
        made = [_in_test_mode(inner, needed) for inner in net.op]
        del net.op[:]
        net.op.extend(made)

    tested = OperatorDef()
    tested.CopyFrom(op)
    change_nested(tested, switch)
    return tested


def _predicting(op: OperatorDef, needed: Collection[str]) -> list[OperatorDef]:
    """Return what makes the needed outputs of an operator without the inputs of a loss; itself where that cannot be."""
    schema = find_schema(op.type)
    if schema.prediction is None:
        return [op]
    view = schema.typed_view(op)
    wanted = {letter for letter, name in zip(view.output_letters, op.output, strict=True) if name in needed}
    if not wanted <= schema.prediction.outputs:
        return [op]
    made = schema.prediction.operators(view)
    for one in made:
        one.name, one.engine = op.name, op.engine
        if op.HasField("device_option"):
            one.device_option.CopyFrom(op.device_option)
    return made
