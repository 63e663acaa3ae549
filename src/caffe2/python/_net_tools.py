"""What `core` does to whole nets: versions of blobs, copies with other names, records of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any, cast

from tazza.operator.nested import net_argument, rename_blobs
from tazza.proto import Argument, NetDef, OperatorDef

if TYPE_CHECKING:
    from caffe2.python._net import Net

Version = tuple[str, int]
SSA = list[tuple[list[Version], list[Version]]]


def proto_of(net: Any) -> NetDef:
    """Return the message of a net, which may be one itself."""
    proto = net if isinstance(net, NetDef) else net.Proto()
    assert isinstance(proto, NetDef)
    return proto


def get_ssa(net: Any, blob_versions: dict[str, int] | None = None) -> Any:
    """Return for each operator its inputs and outputs with versions, and the last version of each blob.

    Of a list of nets the first is a list; versions go on from one net to the next.
    """
    versions: dict[str, int] = {} if blob_versions is None else blob_versions
    if isinstance(net, list):
        return [get_ssa(one, versions)[0] for one in cast("list[Any]", net)], versions
    proto = proto_of(net)
    for name in proto.external_input:
        versions.setdefault(name, 0)
    ssa: SSA = []
    for op in proto.op:
        if not proto.external_input:
            for name in op.input:
                versions.setdefault(name, 0)
        inputs = [(name, versions.get(name, 0)) for name in op.input]
        for name in op.output:
            versions[name] = versions.get(name, 0) + 1
        ssa.append((inputs, [(name, versions[name]) for name in op.output]))
    return ssa, versions


def get_undefined_blobs(ssa: SSA) -> set[str]:
    """Return the blobs that operators read as they were before."""
    return {name for inputs, _ in ssa for name, version in inputs if version == 0}


def get_output_producers(ssa: SSA) -> dict[Version, int]:
    """Return which operator writes each version of a blob."""
    return {one: position for position, (_, outputs) in enumerate(ssa) for one in outputs}


def get_op_ids_in_path(
    ssa: SSA, blob_versions: Mapping[str, int], inputs: Sequence[Any], outputs: Sequence[Any]
) -> list[int]:
    """Return the operators that make the last versions of `outputs`, going back to those of `inputs`."""
    given = {(str(name), blob_versions[str(name)]) for name in inputs}
    producers = get_output_producers(ssa)
    queue = [(str(name), blob_versions[str(name)]) for name in outputs]
    used: set[int] = set()
    while queue:
        one = queue.pop()
        position = producers.get(one)
        if one not in given and position is not None and position not in used:
            used.add(position)
            queue.extend(ssa[position][0])
    return sorted(used)


Remap = Callable[[OperatorDef, str, Mapping[str, str]], None]


def recurrent_network_op_remap(op: OperatorDef, prefix: str, blob_remap: Mapping[str, str]) -> None:
    """Give blobs that a recurrent operator names in its arguments other names."""
    del prefix

    def remapped(name: str) -> str:
        return str(blob_remap.get(name, name))

    for argument in op.arg:
        if argument.strings:
            argument.strings[:] = [remapped(text.decode()).encode() for text in argument.strings]
        elif argument.name == "timestep":
            argument.s = remapped(argument.s.decode()).encode()
        elif argument.name.endswith("step_net"):
            remap_proto(argument, blob_remap)


def control_op_remap(op: OperatorDef, prefix: str, blob_remap: Mapping[str, str]) -> None:
    """Give blobs that nets within an operator name other names."""
    del prefix
    for argument in op.arg:
        if argument.HasField("n"):
            remap_proto(argument, blob_remap)


def remap_proto(argument: Argument, blob_remap: Mapping[str, str]) -> None:
    """Give blobs of the net that an argument holds other names."""
    holder = OperatorDef(arg=[argument])
    found = net_argument(holder, argument.name)
    if found is None:
        return
    made = NetDef()
    made.CopyFrom(found)
    for names in (made.external_input, made.external_output):
        names[:] = [str(blob_remap.get(name, name)) for name in names]
    for op in made.op:
        rename_blobs(op, {key: str(value) for key, value in blob_remap.items()})
    argument.n.CopyFrom(made)


DEFAULT_REMAP_FUNCS: dict[str, Remap] = {
    "RecurrentNetwork": recurrent_network_op_remap,
    "RecurrentNetworkGradient": recurrent_network_op_remap,
    "If": control_op_remap,
    "While": control_op_remap,
    "AsyncIf": control_op_remap,
}


def cloned_proto(
    net: Any,
    name: str,
    names: Mapping[str, str],
    op_id_mask: Sequence[int] | None,
    remap_funcs: Mapping[str, Remap],
) -> NetDef:
    """Return a copy of a net with some of its operators, under other names."""

    def remap(listed: MutableSequence[str]) -> None:
        listed[:] = [str(names.get(one, one)) for one in listed]

    proto = net.Proto()
    made = NetDef()
    made.CopyFrom(proto)
    made.name = name
    del made.op[:]
    for position in range(len(proto.op)) if op_id_mask is None else op_id_mask:
        op = made.op.add()
        op.CopyFrom(proto.op[position])
        remap(op.input)
        remap(op.output)
        if op.type in remap_funcs:
            remap_funcs[op.type](op, f"{name}/" if name else "", names)
    remap(made.external_input)
    remap(made.external_output)
    return made


def set_external_lists(proto: NetDef) -> None:
    """Let a net declare what it reads from outside, and what nobody reads of what it makes."""
    read: list[str] = []
    made: set[str] = set()
    used: set[str] = set()
    for op in proto.op:
        read.extend(name for name in op.input if name not in made)
        used.update(op.input)
        made.update(op.output)
    outputs = [name for op in proto.op for name in op.output if name not in used]
    del proto.external_input[:], proto.external_output[:]
    proto.external_input.extend(dict.fromkeys(read))
    proto.external_output.extend(dict.fromkeys(outputs))


def clone_and_bind_net(
    net: Net,
    name: str,
    prefix: str,
    blob_remap: dict[str, Any] | None = None,
    inputs: Any = None,
    keep_schema: bool = True,
) -> tuple[Net, dict[str, Any]]:
    """Return a copy of a net whose own blobs have a prefix, with its input record bound to another, and all names."""
    names: dict[str, Any] = {} if blob_remap is None else blob_remap
    if inputs is not None:
        original = net.input_record()
        assert original, "the net has no input record"
        missing = set(original.field_names()) - set(inputs.field_names())
        assert not missing, f"inputs lack the fields {sorted(missing)}"
        mapping = dict(zip(original.field_names(), original.field_blobs(), strict=True))
        for field, blob in zip(inputs.field_names(), inputs.field_blobs(), strict=True):
            if field in mapping:
                names[str(mapping[field])] = str(blob)
    ssa, versions = get_ssa(net.Proto())
    undefined = get_undefined_blobs(ssa)
    for blob in versions:
        if blob not in names:
            names[blob] = blob if blob in undefined else prefix + blob
    made = net.Clone(name, names, keep_schema=keep_schema)
    if not keep_schema and inputs:
        made.set_input_record(inputs)
    return made, names
