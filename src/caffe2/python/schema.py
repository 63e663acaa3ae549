"""`from caffe2.python import schema`: records, trees of typed columns that are blobs of a net, or arrays.

Columns are attributes of records, and no checker knows their names. The fields themselves are in `_schema_fields`; here
are the records that are made of them, and how they get to a workspace and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from caffe2.python import workspace
from caffe2.python._operators import BlobReference, DataType
from caffe2.python._schema_fields import (
    FIELD_SEPARATOR,
    LENGTHS,
    VALUES,
    FeatureSpec,
    Field,
    List,
    ListWithEvicted,
    Metadata,
    Scalar,
    Struct,
    logger,
)
from caffe2.python._schema_fields import join_field_name as _join_field_name
from caffe2.python._schema_fields import normalize_field as _normalize_field
from tazza.tensor.dtype import numpy_dtype

__all__ = [
    "FIELD_SEPARATOR",
    "ConstRecord",
    "FeatureSpec",
    "FeedRecord",
    "FetchRecord",
    "Field",
    "InitEmptyRecord",
    "List",
    "ListWithEvicted",
    "Map",
    "MapWithEvicted",
    "Metadata",
    "NamedTuple",
    "NewRecord",
    "RawTuple",
    "Scalar",
    "Struct",
    "Tuple",
    "_join_field_name",
    "_normalize_field",
    "as_record",
    "attach_metadata_to_scalars",
    "data_type_for_dtype",
    "dtype_for_core_type",
    "equal_schemas",
    "from_blob_list",
    "from_column_list",
    "from_dtype",
    "is_schema_subset",
    "logger",
    "schema_check",
]

_CORE_TYPES: dict[Any, int] = {
    str: DataType.STRING,
    bytes: DataType.STRING,
    np.float32: DataType.FLOAT,
    np.float64: DataType.DOUBLE,
    np.float16: DataType.FLOAT16,
    np.bool_: DataType.BOOL,
    np.int8: DataType.INT8,
    np.int16: DataType.INT16,
    np.int32: DataType.INT32,
    np.int64: DataType.INT64,
    np.uint8: DataType.UINT8,
    np.uint16: DataType.UINT16,
}
"""Types of columns, and what fills of that type are given; the first of several is what one gets back."""


def Map(keys: Any, values: Any, keys_name: str = "keys", values_name: str = "values", lengths_blob: Any = None) -> List:
    """Return a list of pairs."""
    return List(Struct((keys_name, keys), (values_name, values)), lengths_blob=lengths_blob)


def MapWithEvicted(
    keys: Any,
    values: Any,
    keys_name: str = "keys",
    values_name: str = "values",
    lengths_blob: Any = None,
    evicted_values: Any = None,
) -> ListWithEvicted:
    """Return a list of pairs, and beside it which values were evicted."""
    pairs = Struct((keys_name, keys), (values_name, values))
    return ListWithEvicted(pairs, lengths_blob=lengths_blob, evicted_values=evicted_values)


def NamedTuple(name_prefix: str, *fields: Any) -> Struct:
    """Return a structure of `prefix_0`, `prefix_1` ..."""
    return Struct(*((f"{name_prefix}_{position}", field) for position, field in enumerate(fields)))


def Tuple(*fields: Any) -> Struct:
    """Return a structure of `field_0`, `field_1` ..."""
    return NamedTuple("field", *fields)


def RawTuple(num_fields: int, name_prefix: str = "field") -> Struct:
    """Return a structure of so many columns of which nothing is known."""
    return NamedTuple(name_prefix, *[None] * num_fields)


def from_dtype(dtype: Any, _outer_shape: tuple[int, ...] = ()) -> Any:
    """Return a column of a NumPy type, or a structure of the fields that it has.

    >>> from_dtype([("a", np.int32), ("b", np.float32, (2,))]).field_types()
    [dtype('int32'), dtype(('<f4', (2,)))]
    """
    given = numpy_dtype(dtype)
    shape = (*_outer_shape, *given.shape)
    if given.base.fields is not None:
        return Struct(*((name, from_dtype(given.base[name], shape)) for name in given.base.fields))
    return Scalar((given.base, shape) if shape else dtype)


def _field_of(columns: Mapping[str, Any]) -> Field:
    """Return the field of columns by what is left of their names: lengths with values are a list."""
    if list(columns) == [""]:
        return columns[""]
    below: dict[str, dict[str, Any]] = {}
    for name, column in columns.items():
        if not name:
            raise ValueError(f"Duplicate field name: a column has columns below it: {sorted(columns)}")
        first, _, rest = name.partition(FIELD_SEPARATOR)
        below.setdefault(first, {})[rest] = column
    parts = {name: _field_of(rest) for name, rest in below.items()}
    if set(parts) == {LENGTHS, VALUES}:
        return List(parts[VALUES], lengths_blob=parts[LENGTHS])
    return Struct(*parts.items())


def from_column_list(
    col_names: Sequence[str],
    col_types: Sequence[Any] | None = None,
    col_blobs: Sequence[Any] | None = None,
    col_metadata: Sequence[Metadata | None] | None = None,
) -> Any:
    """Return the record whose columns are called so.

    >>> from_column_list(["a", "b:lengths", "b:values:c"]).b.c
    Scalar(dtype('V'), None, None)
    <BLANKLINE>
    """
    assert all(col_names), "Field names cannot be empty"
    lists = {"col_types": col_types, "col_blobs": col_blobs, "col_metadata": col_metadata}
    given: list[Sequence[Any]] = []
    for name, values in lists.items():
        assert values is None or len(values) == len(col_names), f"col_names and {name} must have the same length."
        given.append([None] * len(col_names) if values is None else values)
    columns = {name: Scalar(*column) for name, *column in zip(col_names, *given, strict=True)}
    return _field_of(columns) if columns else Struct()


def from_blob_list(schema: Field, values: Sequence[Any], throw_on_type_mismatch: bool = False) -> Any:
    """Return a copy of a record that holds these blobs or arrays; of another type, they are converted or refused."""
    assert isinstance(schema, Field), "Argument `schema` must be a Field."
    made = schema.clone_schema()
    scalars = made.all_scalars()
    assert len(scalars) == len(values), f"Values must have {len(scalars)} elements, got {len(values)}."
    for scalar, value in zip(scalars, values, strict=True):
        scalar.set_value(value, throw_on_type_mismatch, unsafe=True)
    return made


def as_record(value: Any) -> Any:
    """Return a record of blobs, of sequences and mappings of them; a record is returned as it is."""
    if isinstance(value, Field):
        return value
    if isinstance(value, (list, tuple)):
        return Tuple(*(as_record(one) for one in cast("Iterable[Any]", value)))
    if isinstance(value, dict):
        return Struct(*((name, as_record(one)) for name, one in cast("dict[str, Any]", value).items()))
    return _normalize_field(value)


def _references(blob_record: Field) -> list[BlobReference]:
    assert isinstance(blob_record, Field), f"a record of blobs, not {blob_record!r}"
    blobs = blob_record.field_blobs()
    assert all(isinstance(blob, BlobReference) for blob in blobs), f"the record holds arrays, not blobs: {blobs}"
    return blobs


def FetchRecord(blob_record: Field, ws: Any = None, throw_on_type_mismatch: bool = False) -> Any:
    """Return a record of the arrays that are in the blobs of one."""
    blobs = _references(blob_record)
    arrays = [workspace.FetchBlob(blob) if ws is None else ws.blobs[str(blob)].fetch() for blob in blobs]
    return from_blob_list(blob_record, arrays, throw_on_type_mismatch)


def FeedRecord(blob_record: Field, arrays: Any, ws: Any = None) -> None:
    """Feed a record of arrays, or a list of them, to the blobs of a record."""
    blobs = _references(blob_record)
    values: list[Any] = arrays.field_blobs() if isinstance(arrays, Field) else list(arrays)
    assert len(values) == len(blobs), f"Values must contain exactly {len(blobs)} ndarrays."
    for blob, value in zip(blobs, values, strict=True):
        if ws is None:
            workspace.FeedBlob(blob, value)
        else:
            ws.create_blob(str(blob)).feed(value)


def NewRecord(net: Any, schema: Field) -> Any:
    """Return a record of new blobs of a net, which are called as the columns are, in the present scope."""
    assert isinstance(schema, Field), "Record must be a schema.Field instance."
    return from_blob_list(schema, [net.NextScopedBlob(name or "unnamed_scalar") for name in schema.field_names()])


def ConstRecord(net: Any, array_record: Field) -> Any:
    """Return a record of new blobs that a net fills with the arrays of one."""
    made = NewRecord(net, array_record)
    for blob, array in zip(made.field_blobs(), array_record.field_blobs(), strict=True):
        net.Const(array, blob)
    return made


def InitEmptyRecord(net: Any, schema_or_record: Field, enforce_types: bool = False) -> Any:
    """Return a record whose blobs a net makes, without rows; new blobs where the record has none.

    A type that Caffe2 has no number for becomes float32, or with `enforce_types` an error.
    """
    record = schema_or_record if schema_or_record.has_blobs() else NewRecord(net, schema_or_record)
    for blob, dtype in zip(record.field_blobs(), record.field_types(), strict=True):
        known = {"dtype": data_type_for_dtype(dtype)} if enforce_types or _core_type(dtype) is not None else {}
        net.ConstantFill([], blob, shape=[0, *dtype.shape], **known)
    return record


def is_schema_subset(schema: Field, original_schema: Field) -> bool:
    """Whether the other record has all columns of one, by their names."""
    return set(schema.field_names()).issubset(original_schema.field_names())


def equal_schemas(
    schema: Field,
    original_schema: Field,
    check_field_names: bool = True,
    check_field_types: bool = True,
    check_field_metas: bool = False,
) -> bool:
    """Whether two records are equal in what is asked for."""
    assert isinstance(schema, Field), f"a record, not {schema!r}"
    assert isinstance(original_schema, Field), f"a record, not {original_schema!r}"
    return (
        (not check_field_names or schema.field_names() == original_schema.field_names())
        and (not check_field_types or schema.field_types() == original_schema.field_types())
        and (not check_field_metas or schema.field_metadata() == original_schema.field_metadata())
    )


def schema_check(schema: Any, previous: Field | None = None) -> Any:
    """Return a record of what is given, which has to be equal to one before."""
    record = as_record(schema)
    assert previous is None or equal_schemas(record, previous), f"{record!r} is not as {previous!r}"
    return record


def data_type_for_dtype(dtype: Any) -> int:
    """Return how Caffe2 numbers a type.

    >>> data_type_for_dtype(np.dtype((np.int32, 3))) == DataType.INT32
    True
    """
    found = _core_type(dtype)
    if found is None:
        raise TypeError(f"Unknown dtype: {dtype}")
    return found


def _core_type(dtype: Any) -> int | None:
    base = None if dtype is None else numpy_dtype(dtype).base
    return next((core_type for known, core_type in _CORE_TYPES.items() if base == numpy_dtype(known)), None)


def dtype_for_core_type(core_type: int) -> Any:
    """Return the type that Caffe2 numbers so."""
    for known, number in _CORE_TYPES.items():
        if number == core_type:
            return bool if known is np.bool_ else known
    raise TypeError(f"Unknown core type: {core_type}")


def attach_metadata_to_scalars(field: Field, metadata: Metadata) -> None:
    """Say of each column what is known of it."""
    for scalar in field.all_scalars():
        scalar.set_metadata(metadata)
