"""Declaration of one input or output of an operator type, by the letter that all of its code uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tazza.operator.role import Role
from tazza.tensor import DataType

DTypes: TypeAlias = "DataType | frozenset[DataType] | str | None"

FLOAT = frozenset({DataType.FLOAT})
INDEX = frozenset({DataType.INT32, DataType.INT64})
NUMBERS = frozenset(DataType) - {DataType.STRING, DataType.BOOL}


@dataclass(frozen=True, slots=True)
class BlobSpec:
    """Declaration of one input or output letter; see `blob`."""

    name: str
    dtypes: DTypes
    dims: str | None
    like: str | None
    optional: bool
    variadic: bool
    type_name: str | None
    dynamic: bool
    host: bool
    role: Role
    doc: str


def blob(
    name: str,
    dtypes: DTypes = None,
    dims: str | None = None,
    *,
    like: str | None = None,
    optional: bool = False,
    variadic: bool = False,
    type_name: str | None = None,
    dynamic: bool = False,
    host: bool = False,
    role: Role = Role.DATA,
    doc: str = "",
) -> BlobSpec:
    """Declare one input or output.

    Args:
        name: the schema's letter, such as `X` or `dY`.
        dtypes: allowed element types; the letter of another blob means "the same as that one"; None means any.
        dims: shape pattern such as `"N C *S"`.
        like: for an output: dtype and shape are those of this input (where there are as many of both letters, each is
            like its own); for an input, which inference checks: those of this output.
        optional: may be left out (trailing ones only, unless the schema names its slots).
        variadic: stands for any number of blobs, at least one unless optional.
        type_name: the blob holds something else than a tensor, such as `"std::unique_ptr<std::mutex>"`; `"*"` means
            anything.
        dynamic: the size of this output depends on data, so the kernel allocates it.
        host: the blob lives on the CPU, whatever the operator's device.
        role: what an input is for.
        doc: what it is, where the letter does not say it.
    """
    return BlobSpec(name, dtypes, dims, like, optional, variadic, type_name, dynamic, host, role, doc)
