"""Declaration of one input or output of an operator type, by the letter that all of its code uses."""

from __future__ import annotations

from typing import TypeAlias

from tazza.data_class import dataclass
from tazza.operator.role import Role
from tazza.tensor import DataType, PerChannel, PerRow, PerTensor, Quantization

DTypes: TypeAlias = "DataType | frozenset[DataType] | str | None"

FLOAT = frozenset({DataType.FLOAT})
INDEX = frozenset({DataType.INT32, DataType.INT64})
NUMBERS = frozenset(DataType) - {DataType.STRING, DataType.BOOL}
HALVES = frozenset({DataType.FLOAT16, DataType.BFLOAT16})
"""What operators on devices take beside float32: they compute in float32, and round what they write once."""

PLAIN: frozenset[type] = frozenset({type(None)})
"""Of a letter: tensors that are not quantized. Quantizations are joined by `|`, as in `PLAIN | PER_ROW`."""
PER_TENSOR: frozenset[type] = frozenset({PerTensor})
PER_CHANNEL: frozenset[type] = frozenset({PerChannel})
PER_ROW: frozenset[type] = frozenset({PerRow})

TENSOR = "Tensor"
"""What unions of types call a tensor."""


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
    quantization: frozenset[type] = PLAIN
    also: tuple[str, ...] = ()
    says_role: bool = False
    elsewhere: frozenset[DataType] = frozenset()
    decides: bool = False

    def taken_on(self, *, host: bool) -> frozenset[DataType] | None:
        """Return the element types that are taken on the host, or on a device; None: any, or those of another blob."""
        if self.dtypes is None or isinstance(self.dtypes, str):
            return None
        own = frozenset({self.dtypes}) if isinstance(self.dtypes, DataType) else self.dtypes
        return own if host else own | self.elsewhere

    @property
    def only_tensors(self) -> bool:
        """Whether it holds a tensor, and cannot hold anything else."""
        return self.type_name is None and not self.also

    @property
    def open(self) -> bool:
        """Whether the declaration leaves open what it holds: anything, or one of several types."""
        return self.type_name == "*" or bool(self.also)

    def takes_type(self, name: str) -> bool:
        """Whether a blob of that type may stand here."""
        return self.type_name == "*" or name == (self.type_name or TENSOR) or name in self.also


def blob(
    name: str,
    dtypes: DTypes = None,
    dims: str | None = None,
    *,
    like: str | None = None,
    optional: bool = False,
    variadic: bool = False,
    type_name: str | tuple[str, ...] | None = None,
    quantization: frozenset[type] = PLAIN,
    dynamic: bool = False,
    host: bool = False,
    role: Role | None = None,
    elsewhere: frozenset[DataType] = frozenset(),
    decides: bool = False,
    doc: str = "",
) -> BlobSpec:
    """Declare one input or output.

    Args:
        name: the schema's letter, such as `X` or `dY`.
        dtypes: allowed element types; the letter of another blob means "the same as that one"; None means any.
        dims: shape pattern such as `"N C *S"`.
        like: for an output: dtype and shape are those of this input (where there are as many of both letters, each is
            like its own); for an input, which inference checks: those of this output.
        optional: may be left out (trailing ones only, unless the schema names them).
        variadic: stands for any number of blobs, at least one unless optional.
        type_name: the blob holds something else than a tensor, such as `"std::unique_ptr<std::mutex>"`; `"*"` means
            anything, several names one of these, `"Tensor"` among them a tensor.
        quantization: what a tensor here may be: `PLAIN`, `PER_TENSOR`, `PER_CHANNEL`, `PER_ROW`, or some of them.
        dynamic: the size of this output depends on data, so the kernel allocates it.
        host: the blob lives on the CPU, whatever the operator's device.
        elsewhere: element types that an input may have beside `dtypes` where the operator does not run on the host:
            `HALVES`. What has the type of this letter follows.
        decides: whether other outputs are something else where this optional one is not asked for.
        role: what an input is for; where it is not said, data. An input behind the first says it.
        doc: what it is, where the letter does not say it.
    """
    names = (type_name,) if isinstance(type_name, str) else () if type_name is None else type_name
    first = None if not names or names[0] == TENSOR else names[0]
    return BlobSpec(
        name,
        dtypes,
        dims,
        like,
        optional,
        variadic,
        first,
        dynamic,
        host,
        Role.DATA if role is None else role,
        doc,
        quantization,
        names[1:],
        role is not None,
        elsewhere,
        decides,
    )


def way_from(found: Quantization | None, declared: BlobSpec) -> str | None:
    """Return which operator leads from a tensor to one that a letter takes, as far as quantizations name them."""
    if found is not None:
        plain = found.undone_by is not None and type(None) in declared.quantization
        return f"insert an {found.undone_by}" if plain else None
    makers = {one.made_by for one in declared.quantization if issubclass(one, Quantization)} - {None}
    return f"insert an {' or an '.join(sorted(map(str, makers)))}" if makers else None
