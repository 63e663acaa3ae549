"""What a net carries along: its message, attributes, observers, and records of inputs and outputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, cast

from caffe2.python import scope
from caffe2.python._absent import absent
from caffe2.python._net_tools import (
    DEFAULT_REMAP_FUNCS,
    Remap,
    cloned_proto,
    get_op_ids_in_path,
    get_ssa,
    get_undefined_blobs,
    set_external_lists,
)
from caffe2.python._operators import BlobReference
from tazza.models.net import TAKEN_NAMES
from tazza.models.net import Net as Builder
from tazza.proto import DeviceOption, NetDef, OperatorDef


def _schema() -> Any:
    """Return the module of records, which need not be there."""
    return import_module("caffe2.python.schema")


class NetRecords:
    """The part of a net that adds no operators."""

    _net_names_used: ClassVar[set[str]] = TAKEN_NAMES

    @staticmethod
    def current_prefix() -> str:
        """Return the name of the innermost net builder."""
        import sys

        builders = None if "net_builder" in absent() else sys.modules.get("caffe2.python.net_builder")
        builder = None if builders is None else builders.NetBuilder.current(required=False)
        return builder.name if builder else ""

    @classmethod
    def _get_next_net_name(cls, basename: str) -> str:
        name = "/".join(part for part in (cls.current_prefix(), basename) if part)
        return Builder(name, strict=False).name

    def __init__(self, name_or_proto: str | NetDef) -> None:
        """Start an empty net, or from a copy of a `NetDef`; its name is made unique in the process."""
        self._input_record: Any = None
        self._output_record: Any = None
        self._attr_dict: dict[str, list[Any]] = defaultdict(list)
        self._given_names: set[str] = set()
        given = name_or_proto if isinstance(name_or_proto, NetDef) else None
        name = name_or_proto.name if isinstance(name_or_proto, NetDef) else name_or_proto
        assert isinstance(name, str), f"a net is made of a name or a NetDef, not of {name_or_proto!r}"
        whole = "/".join(part for part in (self.current_prefix(), name) if part)
        self._builder = Builder(whole, strict=False) if given is None else Builder.from_proto(given, name=whole)

    @property
    def _net(self) -> NetDef:
        return self._builder.proto

    @_net.setter
    def _net(self, proto: NetDef) -> None:
        self._builder.proto = proto

    def Name(self) -> str:
        """Return the name that it got."""
        return self._net.name

    def __str__(self) -> str:
        return self.Name()

    def Proto(self) -> NetDef:
        """Return the net itself."""
        return self._net

    def BlobIsDefined(self, blob: Any) -> bool:
        """Whether a blob is an external input, or made by an operator."""
        return self._builder.defines(str(blob))

    def UsesBlob(self, blob: Any) -> bool:
        """Whether a blob is an external input, or read by an operator."""
        name = str(blob)
        return name in self._net.external_input or any(name in op.input for op in self._net.op)

    def UsedBlobNames(self) -> set[str]:
        """Return the names of all blobs that the net mentions."""
        names = {name for op in self._net.op for name in (*op.input, *op.output)}
        return names.union(self._net.external_input, self._net.external_output)

    def is_external_input(self, blob: Any) -> bool:
        """Whether a blob is declared as one that comes from outside."""
        return str(blob) in self._net.external_input

    # -- copies --------------------------------------------------------------------------------------------------------

    def Clone(
        self,
        name: str,
        blob_remap: Mapping[str, Any] | None = None,
        op_id_mask: Sequence[int] | None = None,
        remap_funcs: Mapping[str, Remap] | None = None,
        keep_schema: bool = True,
        update_external_list: bool = False,
    ) -> Any:
        """Return a copy with other names of blobs, of all operators or of some."""
        functions = {**DEFAULT_REMAP_FUNCS, **(remap_funcs or {})}
        names = {str(key): str(value) for key, value in (blob_remap or {}).items()}
        proto = cloned_proto(self, name, names, op_id_mask, functions)
        if update_external_list:
            set_external_lists(proto)
        made = type(self)(proto)
        if keep_schema:
            made._keep_records(self, names)
        made._attr_dict.update(self._attr_dict)
        return made

    def _keep_records(self, other: NetRecords, names: Mapping[str, str]) -> None:
        if other._input_record is None and other._output_record is None:
            return
        schema = _schema()

        def renamed(record: Any) -> Any:
            blobs = [BlobReference(names.get(str(blob), str(blob)), cast("Any", self)) for blob in record.field_blobs()]
            return schema.from_blob_list(record, blobs)

        if other._input_record is not None:
            self._input_record = renamed(other._input_record)
        if other._output_record is not None:
            self._output_record = renamed(other._output_record)

    def ClonePartial(
        self,
        name: str,
        inputs: Sequence[Any] | Mapping[Any, Any],
        outputs: Sequence[Any],
        remap_funcs: Mapping[str, Remap] | None = None,
    ) -> tuple[Any, list[BlobReference]]:
        """Return a net of the operators that make `outputs` from `inputs`, and references to what it makes.

        A mapping gives inputs other names. What the net makes has `name/` in front; what else it reads keeps its name.
        """
        given = inputs if isinstance(inputs, Mapping) else {one: one for one in inputs}
        names = {str(key): str(value) for key, value in given.items()}
        ssa, versions = get_ssa(self)
        known = [one for one in names if one in versions]
        used = get_op_ids_in_path(ssa, versions, known, outputs)
        making = get_op_ids_in_path(ssa, versions, [], known)
        assert not set(used) & set(making), (
            "Cannot partially clone net: some of the ops required would generate the given input."
        )
        outside = sorted(get_undefined_blobs([ssa[position] for position in used]) - set(names))
        prefix = f"{name}/" if name else ""
        renames = {one: names.get(one, one if one in outside else prefix + one) for one in versions}
        made = self.Clone(name, renames, used, remap_funcs or {})
        made.Proto().external_input[:] = [*names.values(), *outside]
        made.Proto().external_output[:] = [renames[str(one)] for one in outputs]
        return made, [made.GetBlobRef(one) for one in made.Proto().external_output]

    def AppendNet(self, net: NetRecords, device_option: DeviceOption | None = None) -> Any:
        """Append the operators of another net, and its inputs and outputs as far as they are still such."""
        assert isinstance(net, NetRecords)
        self._builder.extend(net._net)
        if device_option is not None:
            for op in self._net.op[len(self._net.op) - len(net._net.op) :]:
                op.device_option.CopyFrom(device_option)
        return self

    def insert_op_at_idx(self, op: OperatorDef, op_idx: int) -> None:
        """Put an operator before the one at a position."""
        self._net.op.insert(op_idx, op)

    def reroute_tensor(
        self, tensor: Any, new_producer: OperatorDef, can_modify: Sequence[OperatorDef] | None = None
    ) -> int:
        """Let a new operator, put behind the writer of a blob, give its readers their input; returns its position.

        Readers may be limited to those in `can_modify`.
        """
        name = str(tensor)
        writers = [position for position, op in enumerate(self._net.op) if name in op.output]
        readers = [op for op in self._net.op if name in op.input]
        allowed = None if can_modify is None else list(can_modify)
        for op in readers:
            if allowed is None or op in allowed:
                op.input[:] = [new_producer.output[0] if one == name else one for one in op.input]
        self._net.op.insert(writers[-1] + 1 if writers else 0, new_producer)
        return writers[-1] + 1 if writers else 0

    def PopulateProtoWithFileName(self) -> None:
        """Name operators after the line that added them, as far as that was noted."""
        from caffe2.python import workspace

        noted = workspace.operator_tracebacks.get(self.Name(), {})
        for position, op in enumerate(self._net.op):
            if position in noted:
                op.name = ":".join(map(str, noted[position][-1][:2]))

    # -- attributes, seeds, observers ----------------------------------------------------------------------------------

    def add_attribute(self, name: str, obj: Any) -> None:
        """Attach an object that belongs to what runs the net."""
        self._attr_dict[name].append(obj)

    def get_attributes(self, name: str) -> list[Any]:
        """Return what was attached under a name."""
        return self._attr_dict.get(name, [])

    def set_rand_seed(self, seed: int = 100, sequence_seed: bool = True, seed_on_op_def: bool = False) -> None:
        """Seed the operators: each with a number of its own where `sequence_seed`, on itself or on its device."""
        for position, op in enumerate(self._net.op):
            own = seed + position if sequence_seed else seed
            if seed_on_op_def:
                found = [argument for argument in op.arg if argument.name == "seed"]
                argument = found[0] if found else op.arg.add(name="seed")
                argument.i = own
            else:
                op.device_option.random_seed = own

    def AddObserver(self, observer_type: str) -> Any:
        """Attach an observer of a kind to the created net of this name."""
        from caffe2.python import _import_c_extension as C

        return C.add_observer_to_net(self.Name(), observer_type)

    def RemoveObserver(self, observer: Any) -> None:
        """Detach an observer."""
        from caffe2.python import _import_c_extension as C

        C.remove_observer_from_net(self.Name(), observer)

    def NumObservers(self) -> int:
        """Return how many observers the created net of this name has."""
        from caffe2.python import _import_c_extension as C

        return C.num_observers_on_net(self.Name())

    # -- records -------------------------------------------------------------------------------------------------------

    def set_input_record(self, input_record: Any) -> Any:
        """Say what the inputs are; blobs are made for a record that has none."""
        schema = _schema()

        assert self._input_record is None or input_record == self._input_record, "the input record is set already"
        if input_record.has_blobs():
            self._input_record = input_record
        else:
            with scope.NameScope(self.Name()):
                self._input_record = schema.NewRecord(self, input_record)
        for blob in self._input_record.field_blobs():
            if not self.is_external_input(blob):
                self._net.external_input.append(str(blob))
        return self._input_record

    def _recover(self, names: Iterable[str], prefix: str) -> Any:
        schema = _schema()

        columns = [name[len(prefix) :] for name in names if name.startswith(prefix)]
        if not columns:
            return None
        return schema.from_column_list(columns, col_blobs=[BlobReference(prefix + name) for name in columns])

    def recover_input_record_by_prefix(self, prefix: str) -> None:
        """Make the input record of those inputs that have a prefix."""
        record = self._recover(self._net.external_input, prefix)
        if record:
            self.set_input_record(record)

    def set_output_record(self, record: Any) -> None:
        """Say what the outputs are."""
        assert self._output_record is None or record == self._output_record, "the output record is set already"
        for blob in record.field_blobs():
            assert self.BlobIsDefined(blob), f"{blob} is not defined"
            if str(blob) not in self._net.external_output:
                self._net.external_output.append(str(blob))
        self._output_record = record

    def recover_output_record_by_prefix(self, prefix: str) -> None:
        """Make the output record of those outputs that have a prefix."""
        record = self._recover(self._net.external_output, prefix)
        if record:
            self.set_output_record(record)

    def AppendOutputRecordField(self, field_name: str, record: Any) -> None:
        """Add a field to the output record."""
        assert self._output_record is not None, "the output record is not set"
        for blob in record.field_blobs():
            assert self.BlobIsDefined(blob), f"{blob} is not defined"
            self._net.external_output.append(str(blob))
        schema = _schema()

        self._output_record = self._output_record + schema.Struct((field_name, record))

    def input_record(self) -> Any:
        """Return the record of the inputs, None without one."""
        return self._input_record

    def output_record(self) -> Any:
        """Return the record of the outputs, None without one."""
        return self._output_record
