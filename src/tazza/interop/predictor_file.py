"""Predictor files: a database with a `MetaNetDef`, which lists nets and blobs by role, and the parameters.

The record `!!META_NET_DEF` is a string blob that holds the message; all other records are blobs as `Save` writes them.
The net of the role GLOBAL_INIT_NET_TYPE loads them from the blob `!!PREDICTOR_DBREADER`. The names of roles are the
defaults of `PredictorConsts`; a file that holds a named predictor has `_<name>` behind each.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from tazza.data_class import dataclass
from tazza.db import Mode, open_db
from tazza.errors import FileError, FormatError
from tazza.interop.export import parameter_value, predict_part
from tazza.models import Model, Net
from tazza.operator import operator_def
from tazza.proto import BlobProto, BlobsMap, MetaNetDef, NetDef, NetsMap, PredictorConsts
from tazza.proto.message import parse, serialize
from tazza.runtime.files import kind_of, shown
from tazza.tensor import Tensor, TensorSpec, serialize_blob
from tazza.tensor.serialization import blob_name_of_key
from tazza.tensor.tensor_proto import read_chunk
from tazza.workspace import Workspace

ROLES = PredictorConsts()
"""Its fields have the names of roles as defaults."""


@dataclass(frozen=True, slots=True)
class PredictorFile:
    """What a predictor file says of its model."""

    meta: MetaNetDef
    source: str
    db_type: str
    name: str = ""

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, db_type: str | None = None, name: str = "") -> PredictorFile:
        """Read the table of contents of a predictor file; parameters stay where they are.

        Args:
            path: a file, or the folder of a database.
            db_type: kind of database; by default minidb for a file and lmdb for a folder.
            name: which predictor, when the file names its predictors.

        Raises:
            FileError: nothing is at the path.
            DBError: it is no database of that kind.
            FormatError: it has no MetaNetDef, or a broken one.
        """
        source = os.fspath(path)
        if kind_of(source) is None:
            raise FileError(f"predictor file {shown(source)} does not exist", hint="check the path")
        kind = db_type if db_type is not None else "lmdb" if kind_of(source) == "folder" else "minidb"
        with open_db(kind, source) as db, db.cursor() as cursor:
            while cursor.valid and cursor.key != ROLES.META_NET_DEF.encode():
                cursor.next()
            if not cursor.valid:
                raise FormatError(
                    f"{db} has no record {ROLES.META_NET_DEF!r}", hint="this database is no predictor file"
                )
            record = parse(BlobProto, cursor.value, f"record {ROLES.META_NET_DEF!r} of '{source}'")
        return cls(parse(MetaNetDef, record.content, f"the MetaNetDef of '{source}'"), source, kind, name)

    def blobs(self, role: str) -> tuple[str, ...]:
        """Return the blobs of a role; none when the file does not list it."""
        return tuple(next((each.value for each in self.meta.blobs if each.key == self._key(role)), ()))

    def find_net(self, role: str) -> NetDef | None:
        """Return the net of a role, or None."""
        return next((each.value for each in self.meta.nets if each.key == self._key(role)), None)

    def net(self, role: str) -> NetDef:
        """Return the net of a role.

        Raises:
            FormatError: the file has none.
        """
        found = self.find_net(role)
        if found is None:
            nets = ", ".join(each.key for each in self.meta.nets)
            raise FormatError(
                f"predictor file '{self.source}' has no net {self._key(role)!r}, its nets are: {nets}",
                hint="when they end in _<name>, pass name='<name>'",
            )
        return found

    def specs(self) -> dict[str, TensorSpec]:
        """Return the specs of the tensors that are stored beside the nets, by name; nothing is loaded.

        Raises:
            DBError, FormatError: the file, or a record of it, is broken.
        """
        found: dict[str, TensorSpec] = {}
        with open_db(self.db_type, self.source) as db, db.cursor() as cursor:
            while cursor.valid:
                name = blob_name_of_key(cursor.key.decode(errors="surrogateescape"))
                if name != ROLES.META_NET_DEF and name not in found:
                    record = parse(BlobProto, cursor.value, f"record {name!r} of '{self.source}'")
                    if record.HasField("tensor"):
                        chunk = read_chunk(record.tensor, f"tensor {name!r} of '{self.source}'")
                        found[name] = TensorSpec(chunk.dims, chunk.dtype)
                cursor.next()
        return found

    def _key(self, role: str) -> str:
        return f"{role}_{self.name}" if self.name else role


def save_predictor(
    path: str | os.PathLike[str],
    source: Model | Net | NetDef,
    workspace: Workspace,
    *,
    outputs: Sequence[str] | None = None,
    parameters: Iterable[str] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    db_type: str = "minidb",
    name: str = "",
) -> None:
    """Write a predictor file, whose loader needs nothing else.

    Args:
        path: where; a database that is there is replaced or refused, as its kind does it.
        source: as in `export_nets`.
        workspace: as in `export_nets`.
        outputs: as in `export_nets`.
        parameters: as in `export_nets`.
        shapes: of inputs and outputs, for readers that make these blobs beforehand; by default those that the blobs
            have in the workspace.
        db_type: kind of database.
        name: of the predictor; appended to the names of roles.

    Raises:
        DBError: the database cannot be written.
        TazzaError: as `export_nets`.
    """
    part = predict_part(source, outputs=outputs, parameters=parameters)
    values = {each: parameter_value(workspace, each) for each in part.parameters}
    extents = _shapes(workspace, (*part.inputs, *part.outputs)) if shapes is None else shapes
    suffix = f"_{name}" if name else ""
    meta = MetaNetDef()
    for role, blobs in (
        (ROLES.PARAMETERS_BLOB_TYPE, part.parameters),
        (ROLES.INPUTS_BLOB_TYPE, part.inputs),
        (ROLES.OUTPUTS_BLOB_TYPE, part.outputs),
    ):
        meta.blobs.append(BlobsMap(key=role + suffix, value=blobs))
    for role, net in (
        (ROLES.PREDICT_INIT_NET_TYPE, _predict_init((*part.inputs, *part.outputs), extents)),
        (ROLES.GLOBAL_INIT_NET_TYPE, _global_init(part.parameters)),
        (ROLES.PREDICT_NET_TYPE, part.predict_net),
    ):
        meta.nets.append(NetsMap(key=role + suffix, value=net))
    record = BlobProto(name=ROLES.META_NET_DEF, type="std::string", content=serialize(meta))
    with open_db(db_type, path, Mode.NEW) as db, db.transaction() as transaction:
        transaction.put(ROLES.META_NET_DEF, serialize(record))
        for each, value in values.items():
            for key, stored in serialize_blob(Tensor.from_numpy(value, copy=None), each):
                transaction.put(key, stored)


def _shapes(workspace: Workspace, names: Sequence[str]) -> dict[str, Sequence[int]]:
    found = {name: workspace.get_blob(name) for name in names}
    tensors = {name: blob.value for name, blob in found.items() if blob is not None}
    return {
        name: tuple(value.shape) for name, value in tensors.items() if isinstance(value, Tensor) and value.allocated
    }


def _predict_init(names: Sequence[str], shapes: Mapping[str, Sequence[int]]) -> NetDef:
    """Return the net that makes inputs and outputs beforehand; a shape that nobody knows is (0,)."""
    net = NetDef(name="predict-init", external_input=names)
    for name in names:
        net.op.append(operator_def("ConstantFill", (), [name], shape=list(shapes.get(name, (0,))), value=0.0))
    return net


def _global_init(parameters: Sequence[str]) -> NetDef:
    net = NetDef(name="global-init", external_input=[ROLES.PREDICTOR_DBREADER], external_output=parameters)
    net.op.append(operator_def("Load", [ROLES.PREDICTOR_DBREADER], parameters))
    return net
