"""A net that predicts, taken out of one that trains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableSequence
from typing import Any

from caffe2.python import core
from tazza.proto import NetDef, OperatorDef


def ExtractPredictorNet(
    net_proto: NetDef,
    input_blobs: Iterable[Any],
    output_blobs: Iterable[Any],
    device: Any = None,
    renames: Mapping[str, str] | None = None,
    disabled_inputs: Iterable[Any] | None = None,
) -> tuple[Any, list[str]]:
    """Return a net of the operators from the first reader of an input to the last writer of an output.

    Of these, the ones whose inputs are known are taken: inputs of the net, but for the disabled ones, and what those
    taken before them make.

    Returns:
        The net, and what has to be saved for it: the inputs that it reads beside `input_blobs`.

    Raises:
        Exception: nobody reads an input or writes an output, or an operator is one that trains (`is_test` is 0).
    """
    inputs, outputs = dict.fromkeys(map(str, input_blobs)), dict.fromkeys(map(str, output_blobs))
    given = dict.fromkeys(net_proto.external_input)
    known = {*given, *inputs}.difference(map(str, disabled_inputs or ()))
    made = NetDef(name=net_proto.name + "_predict")
    read, written = dict(inputs), dict(outputs)
    for op in _span(list(net_proto.op), set(inputs), set(outputs)):
        if known.issuperset(op.input):
            made.op.add().CopyFrom(_for_prediction(op, device))
            known.update(op.output)
            read.update(dict.fromkeys(name for name in op.input if name in given))
            written.update(dict.fromkeys(name for name in op.output if name in net_proto.external_output))
    made.external_input.extend(read)
    made.external_output.extend(written)
    _rename(made, renames or {})
    own = {(renames or {}).get(name, name) for name in inputs}
    saved = [name for name in made.external_input if name not in own]
    return core.Net(made), saved


def _span(ops: list[OperatorDef], inputs: set[str], outputs: set[str]) -> list[OperatorDef]:
    reading = [at for at, op in enumerate(ops) if inputs.intersection(op.input) and op.type != "StopGradient"]
    if not reading:
        raise Exception(f"No ops with input={inputs}")
    writing = [at for at, op in enumerate(ops) if outputs.intersection(op.output)]
    if not writing:
        raise Exception(f"No ops with output={outputs}")
    return ops[min(reading) : max(writing) + 1]


def _for_prediction(op: OperatorDef, device: Any) -> OperatorDef:
    made = OperatorDef()
    made.CopyFrom(op)
    for argument in made.arg:
        if argument.name == "is_test" and argument.i == 0:
            raise Exception(
                "An operator had is_test=0, did you try to extract a predictor from a train model "
                f"(instead of test model)? Op was: {op}"
            )
        if op.type == "RecurrentNetwork" and argument.name == "backward_step_net":
            argument.ClearField("n")
        if op.type == "RecurrentNetwork" and argument.name == "step_net" and device is not None:
            for step in argument.n.op:
                step.device_option.CopyFrom(device)
    if device is not None:
        made.device_option.CopyFrom(device)
    return made


def _rename(net: NetDef, names: Mapping[str, str]) -> None:
    lists: list[MutableSequence[str]] = [net.external_input, net.external_output]
    lists += [part for op in net.op for part in (op.input, op.output)]
    for listed in lists:
        listed[:] = [names.get(name, name) for name in listed]
