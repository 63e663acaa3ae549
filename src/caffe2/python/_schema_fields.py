"""Fields of records: scalars, lists and structures of columns, each with a type and, perhaps, a blob or an array."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self, cast

import numpy as np

from caffe2.python._operators import BlobReference
from tazza.tensor.dtype import numpy_dtype

FIELD_SEPARATOR = ":"
LENGTHS, VALUES, EVICTED = "lengths", "values", "_evicted_values"

logger = logging.getLogger("caffe2.python.schema")


class FeatureSpec(NamedTuple):
    """What a column of features is made of."""

    feature_type: Any = None
    feature_names: Any = None
    feature_ids: Any = None
    feature_is_request_only: Any = None
    desired_hash_size: Any = None
    feature_to_index: Any = None


class Metadata(NamedTuple):
    """What is known of a column beside its type: a bound of its categories, a value to expect, its features."""

    categorical_limit: Any = None
    expected_value: Any = None
    feature_specs: Any = None


def join_field_name(prefix: str, suffix: str) -> str:
    """Return the name of a column below another.

    >>> join_field_name("a", "b"), join_field_name("a", ""), join_field_name("", "b")
    ('a:b', 'a', 'b')
    """
    if prefix and suffix:
        return prefix + FIELD_SEPARATOR + suffix
    return prefix if prefix else suffix


def _below(prefix: str, field: Field) -> list[str]:
    return [join_field_name(prefix, name) for name in field.field_names()]


def normalize_field(field_or_type_or_blob: Any, keep_blobs: bool = True) -> Field:
    """Return a field of its own: a copy of one, or a scalar of a type, of a blob or of an array."""
    if isinstance(field_or_type_or_blob, Field):
        return field_or_type_or_blob.clone(keep_blobs)
    if isinstance(field_or_type_or_blob, type):
        return Scalar(dtype=field_or_type_or_blob)
    return Scalar(blob=field_or_type_or_blob)


class Field:
    """A part of a record. Its columns are numbered from the left, within it and within what it belongs to.

    A child belongs to one parent: whatever is put into a field is copied, references to blobs along with it.
    """

    __slots__ = ("_field_offsets", "_parent")

    _parent: tuple[Field | None, int]
    _field_offsets: list[int]

    def __init__(self, children: Sequence[Field]) -> None:
        """Number the columns of the children, and be their parent."""
        object.__setattr__(self, "_parent", (None, 0))
        self._adopt(children)

    def _adopt(self, children: Sequence[Field]) -> None:
        offsets = [0]
        for position, child in enumerate(children):
            offsets.append(offsets[-1] + len(child.field_names()))
            object.__setattr__(child, "_parent", (self, position))
        object.__setattr__(self, "_field_offsets", offsets)

    def __setstate__(self, state: tuple[dict[str, Any] | None, dict[str, Any]]) -> None:
        """Take what was copied or pickled, also where attributes cannot be set."""
        for part in state:
            for name, value in (part or {}).items():
                object.__setattr__(self, name, value)

    def clone_schema(self) -> Field:
        """Return a copy without blobs."""
        return self.clone(keep_blobs=False)

    def field_names(self) -> list[str]:
        """Return the names of the columns."""
        raise NotImplementedError("Field is an abstract class.")

    def field_types(self) -> list[Any]:
        """Return the types of the columns."""
        raise NotImplementedError("Field is an abstract class.")

    def field_metadata(self) -> list[Metadata | None]:
        """Return the metadata of the columns."""
        raise NotImplementedError("Field is an abstract class.")

    def field_blobs(self) -> list[Any]:
        """Return the blobs or arrays of the columns."""
        raise NotImplementedError("Field is an abstract class.")

    def all_scalars(self) -> list[Scalar]:
        """Return the columns themselves."""
        raise NotImplementedError("Field is an abstract class.")

    def has_blobs(self) -> bool:
        """Whether each column has a blob or an array."""
        raise NotImplementedError("Field is an abstract class.")

    def clone(self, keep_blobs: bool = True) -> Field:
        """Return a copy, of which one may want the form only."""
        del keep_blobs
        raise NotImplementedError("Field is an abstract class.")

    def _text(self, indent: int) -> str:
        del indent
        raise NotImplementedError("Field is an abstract class.")

    def slice(self) -> slice:
        """Return which columns of the whole record are those of this field."""
        first = self._first()
        return slice(first, first + len(self.field_names()))

    def _first(self, position: int = 0) -> int:
        """Return the number of the first column of a child, in the whole record."""
        above, place = self._parent
        own = self._field_offsets[position]
        return own if above is None else own + above._first(place)

    def __eq__(self, other: object) -> bool:
        """Whether names, types and metadata of the columns are equal; blobs do not count."""
        if not isinstance(other, Field):
            return NotImplemented
        return (
            self.field_names() == other.field_names()
            and self.field_types() == other.field_types()
            and self.field_metadata() == other.field_metadata()
        )

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return self._text(0)


class Scalar(Field):
    """One column: a type, perhaps with the shape of an entry, and what it holds.

    >>> Scalar((np.float32, 3)).field_type().shape
    (3,)
    """

    __slots__ = ("_blob", "_metadata", "_original_dtype", "dtype")

    dtype: np.dtype[Any]

    def __init__(self, dtype: Any = None, blob: Any = None, metadata: Metadata | None = None) -> None:
        """Make a column; a type of None says nothing of its entries."""
        self._metadata: Metadata | None = None
        self.set(dtype, blob, metadata, unsafe=True)
        super().__init__([])

    def field_names(self) -> list[str]:
        """Return one empty name: others name a column."""
        return [""]

    def field_type(self) -> np.dtype[Any]:
        """Return the type."""
        return self.dtype

    def field_types(self) -> list[Any]:
        """Return the type, in a list."""
        return [self.dtype]

    def field_metadata(self) -> list[Metadata | None]:
        """Return the metadata, in a list."""
        return [self._metadata]

    def has_blobs(self) -> bool:
        """Whether there is a blob or an array."""
        return self._blob is not None

    def field_blobs(self) -> list[Any]:
        """Return the blob or the array, in a list."""
        assert self._blob is not None, "Value is not set for this field."
        return [self._blob]

    def all_scalars(self) -> list[Scalar]:
        """Return itself, in a list."""
        return [self]

    def clone(self, keep_blobs: bool = True) -> Scalar:
        """Return a copy."""
        return Scalar(self._original_dtype, self._blob if keep_blobs else None, self._metadata)

    def get(self) -> Any:
        """Return the blob or the array."""
        assert self._blob is not None, "Value is not set for this field."
        return self._blob

    def __call__(self) -> Any:
        """Return the blob or the array."""
        return self.get()

    @property
    def metadata(self) -> Metadata | None:
        """What is known beside the type."""
        return self._metadata

    def set_metadata(self, value: Metadata) -> None:
        """Say what is known beside the type."""
        assert isinstance(value, Metadata), f"metadata must be Metadata, got {type(value)}"
        self._metadata = value
        self._check_metadata()

    def _check_metadata(self) -> None:
        if self._metadata is not None and self._metadata.categorical_limit is not None:
            assert np.issubdtype(self.dtype, np.integer), (
                f"`categorical_limit` can be specified only in integral fields but got {self.dtype}"
            )

    def set_value(self, blob: Any, throw_on_type_mismatch: bool = False, unsafe: bool = False) -> None:
        """Set what it holds; an array of another type is converted, or refused."""
        if throw_on_type_mismatch and not isinstance(blob, BlobReference):
            assert isinstance(blob, np.ndarray), f"Got {blob!r}"
            blob = cast("np.ndarray[Any, Any]", blob)
            assert self.dtype.base == blob.dtype.base, f"Expected {self.dtype.base}, got {blob.dtype.base}"
        self.set(self._original_dtype, blob, self._metadata, unsafe)

    def set(self, dtype: Any = None, blob: Any = None, metadata: Metadata | None = None, unsafe: bool = False) -> None:
        """Set type and content anew, metadata if given; who shares the record sees it: `unsafe` has to be said."""
        if not unsafe:
            logger.warning("what was made before may rely on this Scalar: Scalar.set() wants unsafe=True")
        if isinstance(blob, (str, bytes)):
            raise ValueError(f"{blob!r} is a blob's name or a value: write BlobReference(blob), or np.array(blob)")
        if isinstance(dtype, tuple) and dtype[0] is np.void:
            raise TypeError(f"{dtype} is no type of a Scalar (blob {blob}): what makes it has inputs of unknown types")
        self.set_type(dtype)
        self._blob: Any = self._content(blob)
        if metadata is not None:
            self.set_metadata(metadata)

    def _content(self, blob: Any) -> Any:
        if blob is None or isinstance(blob, BlobReference):
            return blob
        if self.dtype.base == numpy_dtype(np.void):
            assert isinstance(blob, np.ndarray), f"Invalid blob type: {type(blob)}"
            return blob  # pyright: ignore[reportUnknownVariableType]
        made = np.array(blob, dtype=self.dtype.base)
        if made.ndim > 1:  # what an entry looks like is what the values say
            self.dtype = numpy_dtype((self.dtype.base, made.shape[1:]))
        return made if isinstance(blob, np.ndarray) else np.atleast_1d(made)

    def set_type(self, dtype: Any) -> None:
        """Set the type, and leave the rest."""
        given = numpy_dtype(np.void if dtype is None else dtype)
        assert given.fields is None, "a Scalar has no fields: from_dtype makes a record of this type"
        self._original_dtype: Any = dtype
        self.dtype = given
        self._check_metadata()

    def id(self) -> int:
        """Return its number in the whole record."""
        return self._first()

    def _text(self, indent: int) -> str:
        return f"{' ' * indent}Scalar({self.dtype!r}, {self._blob!r}, {self._metadata!r})\n"


class List(Field):
    """Entries of many items: their lengths, and the items one behind the other.

    >>> List(Scalar(np.float32)).field_names()
    ['lengths', 'values']
    """

    __slots__ = ("_items", "lengths")

    lengths: Field

    def __init__(self, values: Any, lengths_blob: Any = None) -> None:
        """Make a list of what `values` is; lengths are a blob, or a column with a type of its own."""
        given = isinstance(lengths_blob, Field)
        self.lengths = normalize_field(lengths_blob) if given else Scalar(np.int32, lengths_blob)
        self._items: Field = normalize_field(values)
        super().__init__(self._parts())

    def _parts(self) -> list[Field]:
        return [self.lengths, self._items]

    def field_names(self) -> list[str]:
        """Return the names of the columns."""
        return [LENGTHS, *_below(VALUES, self._items)]

    def field_types(self) -> list[Any]:
        """Return the types of the columns."""
        return [one for part in self._parts() for one in part.field_types()]

    def field_metadata(self) -> list[Metadata | None]:
        """Return the metadata of the columns."""
        return [one for part in self._parts() for one in part.field_metadata()]

    def field_blobs(self) -> list[Any]:
        """Return the blobs or arrays of the columns."""
        return [one for part in self._parts() for one in part.field_blobs()]

    def all_scalars(self) -> list[Scalar]:
        """Return the columns."""
        return [one for part in self._parts() for one in part.all_scalars()]

    def has_blobs(self) -> bool:
        """Whether lengths and items have blobs or arrays."""
        return self.lengths.has_blobs() and self._items.has_blobs()

    def clone(self, keep_blobs: bool = True) -> Self:
        """Return a copy."""
        return type(self)(*(normalize_field(part, keep_blobs) for part in (self._items, self.lengths)))

    def _text(self, indent: int) -> str:
        space = " " * indent
        parts = zip((LENGTHS, "_items", EVICTED), self._parts(), strict=False)
        inner = "".join(f"{space}  {name}=\n{part._text(indent + 4)}" for name, part in parts)
        return f"{space}{self._called}(\n{inner}{space})\n"

    @property
    def _called(self) -> str:
        return "List"

    def __getattr__(self, item: str) -> Any:
        """Look into the items: into a structure, or at what has no name."""
        if item.startswith("__") or item in ("_items", "_evicted_values"):
            raise AttributeError(item)
        if isinstance(self._items, Struct):
            return getattr(self._items, item)
        if item in ("value", "items"):
            return self._items
        raise AttributeError(f"Field not found in list: {item}.")

    def __getitem__(self, item: str) -> Any:
        """Return a part by its name, as columns are called."""
        name, _, rest = item.partition(FIELD_SEPARATOR)
        if item == LENGTHS:
            return self.lengths
        if name == VALUES:
            return self._items[rest] if rest else self._items  # pyright: ignore[reportIndexIssue, reportUnknownVariableType]
        raise KeyError(f"Field not found in list: {item}.")


class ListWithEvicted(List):
    """A list, and beside it which values were evicted from the table that it is looked up in."""

    __slots__ = ("_evicted_values",)

    def __init__(self, values: Any, lengths_blob: Any = None, evicted_values: Any = None) -> None:
        """Make a list; evicted values are a blob, or a column with a type of its own."""
        given = isinstance(evicted_values, Field)
        self._evicted_values: Field = normalize_field(evicted_values) if given else Scalar(np.int64, evicted_values)
        super().__init__(values, lengths_blob=lengths_blob)

    def _parts(self) -> list[Field]:
        return [*super()._parts(), self._evicted_values]

    def field_names(self) -> list[str]:
        """Return the names of the columns."""
        return [*super().field_names(), EVICTED]

    def clone(self, keep_blobs: bool = True) -> Self:
        """Return a copy."""
        parts = (self._items, self.lengths, self._evicted_values)
        return type(self)(*(normalize_field(part, keep_blobs) for part in parts))

    @property
    def _called(self) -> str:
        return "ListWithEvicted"

    def __getitem__(self, item: str) -> Any:
        """Return a part by its name, as columns are called."""
        return self._evicted_values if item == EVICTED else super().__getitem__(item)


class Struct(Field):
    """Fields with names, in an order. A name may lead into structures: `"a:b"` is `b` in `a`.

    >>> Struct(("a", Scalar(np.int32)), ("b:c", Scalar(str))).field_names()
    ['a', 'b:c']
    """

    __slots__ = ("_frozen", "fields")

    fields: OrderedDict[str, Field]

    def __init__(self, *fields: tuple[str, Any]) -> None:
        """Make a structure of names with fields, types, blobs or arrays; structures of one name become one."""
        found: OrderedDict[str, Field] = OrderedDict()
        for one in fields:
            assert len(one) == 2, f"a name and a field, not {one!r}"
            name, field = self._nested(*one)
            _insert(found, name, field)
        object.__setattr__(self, "fields", found)
        super().__init__(list(found.values()))
        object.__setattr__(self, "_frozen", True)

    @staticmethod
    def _nested(name: str, given: Any) -> tuple[str, Field]:
        assert name, "Field names cannot be empty"
        field = normalize_field(given)
        while FIELD_SEPARATOR in name:
            name, child = name.rsplit(FIELD_SEPARATOR, 1)
            field = Struct((child, field))
        assert name != LENGTHS, f"Struct cannot contain a field named `{LENGTHS}`."
        return name, field

    def get_children(self) -> list[tuple[str, Field]]:
        """Return names with fields."""
        return list(self.fields.items())

    def field_names(self) -> list[str]:
        """Return the names of the columns."""
        return [name for prefix, field in self.fields.items() for name in _below(prefix, field)]

    def field_types(self) -> list[Any]:
        """Return the types of the columns."""
        return [one for field in self.fields.values() for one in field.field_types()]

    def field_metadata(self) -> list[Metadata | None]:
        """Return the metadata of the columns."""
        return [one for field in self.fields.values() for one in field.field_metadata()]

    def field_blobs(self) -> list[Any]:
        """Return the blobs or arrays of the columns."""
        return [one for field in self.fields.values() for one in field.field_blobs()]

    def all_scalars(self) -> list[Scalar]:
        """Return the columns."""
        return [one for field in self.fields.values() for one in field.all_scalars()]

    def has_blobs(self) -> bool:
        """Whether all fields have blobs or arrays."""
        return all(field.has_blobs() for field in self.fields.values())

    def clone(self, keep_blobs: bool = True) -> Self:
        """Return a copy."""
        return type(self)(*((name, normalize_field(field, keep_blobs)) for name, field in self.fields.items()))

    def _text(self, indent: int) -> str:
        space = " " * indent
        inner = "".join(f"{space}  {name}=\n{field._text(indent + 4)}" for name, field in self.fields.items())
        return f"{space}Struct( \n{inner}{space}) \n"

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields.values())

    def _find(self, path: str) -> Field:
        found: Any = self
        for position, name in enumerate(parts := path.split(FIELD_SEPARATOR)):
            if isinstance(found, Struct):
                found = found.fields[name]
            elif isinstance(found, List):
                return found[FIELD_SEPARATOR.join(parts[position:])]
            else:
                raise KeyError(path)
        return found

    def __contains__(self, item: str) -> bool:
        """Whether a name leads somewhere."""
        try:
            self._find(item)
        except (KeyError, TypeError):
            return False
        return True

    def __getitem__(self, item: Any) -> Any:
        """Return the field of a name or a number; of several, a structure of them."""
        if isinstance(item, (list, tuple)):
            names = list(self.fields)
            return Struct(*((one if isinstance(one, str) else names[one], self[one]) for one in item))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if isinstance(item, int):
            return next(islice(self.fields.values(), item, None))
        try:
            return self._find(item)
        except (KeyError, TypeError):
            raise KeyError(f'field "{item}" not found') from None

    def get(self, item: str, default_value: Any) -> Any:
        """Return the field of a name, or what is given instead."""
        return getattr(self, item, default_value)

    def __getattr__(self, item: str) -> Any:
        """Return the field of a name."""
        if item.startswith("__") or item in Struct.__slots__ or item not in self.fields:
            raise AttributeError(item)
        return self.fields[item]

    def __setattr__(self, key: str, value: Any) -> None:
        """Refuse: other records may have been made of this one."""
        raise TypeError(f"a Struct does not change: {key} would")

    def __add__(self, other: Struct) -> Struct:
        """Return a structure of the fields of both; structures of one name become one."""
        if not isinstance(other, Struct):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        merged = OrderedDict(self.fields)
        for name, right in other.fields.items():
            left = merged.get(name)
            if left is not None and not (isinstance(left, Struct) and isinstance(right, Struct)):
                raise TypeError(f"both have a field {name}: {type(left)} and {type(right)} do not merge, structures do")
            merged[name] = right if left is None else left + right  # pyright: ignore[reportOperatorIssue, reportUnknownArgumentType]
        return Struct(*merged.items())

    def __sub__(self, other: Struct) -> Struct:
        """Return a structure of the fields that the other lacks."""
        if not isinstance(other, Struct):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        kept: list[tuple[str, Field]] = []
        for name, left in self.fields.items():
            right = other.fields.get(name)
            if right is not None and type(left) is not type(right):
                raise TypeError(f"the field {name} is {type(left)} here and {type(right)} there")
            rest = left - right if isinstance(left, Struct) and isinstance(right, Struct) else None
            if right is None or rest:
                kept.append((name, left if rest is None else rest))
        return Struct(*kept)


def _insert(fields: OrderedDict[str, Field], name: str, field: Field) -> None:
    there = fields.get(name)
    if there is None:
        fields[name] = field
    elif isinstance(there, Struct) and isinstance(field, Struct):
        fields[name] = there + field
    else:
        raise ValueError(f"Duplicate field name: {name}")
