"""Updates of some rows: what an update of a whole parameter does, for the rows that indices pick.

    ROWS = Rows(ADAGRAD, kept={"W": "W_next", "M": "M_next"}, rows=("dW",))
    SPARSE_ADAGRAD = on_rows(ROWS, "SparseAdagrad", ["W", "M", "indices", "dW", "lr"], example)

    @kernel(SPARSE_ADAGRAD)
    def sparse_adagrad(op, W, M, indices, dW, lr, W_next, M_next):
        update_rows(op, ROWS, adagrad, W=W, M=M, indices=indices, dW=dW, lr=lr, W_next=W_next, M_next=M_next)

Letters as in the dense operator. What it must keep (parameters and state with as many rows as W) is overwritten in the
rows that `indices` (K, of any shape) picks; each of K rows of the gradient belongs to one of them, and what the dense
operator makes of the gradient has a row for each as well. Everything else, a rate for example, is read as it is. An
index that stands there several times is updated as often, one time after the other, as Caffe2 does it.

`update_rows` calls the dense operator's reference kernel for all first occurrences of indices at once, then for all
second ones, and so on: rows of one call are all different.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    INDEX,
    Array,
    BlobSpec,
    Cost,
    Effects,
    Expression,
    OpSchema,
    OpView,
    Role,
    blob,
    formulas_of,
    scalars_of,
    schema,
    show_dims,
)
from tazza.operator.gradient import NoGradient
from tazza.ops.shape.axis import agree, product
from tazza.ops.sparse.segment import check_rows, places_within
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

INDICES = blob("indices", INDEX, role=Role.INDEX, doc="K rows of any shape, each in [0, R)")


@dataclass(frozen=True, slots=True)
class Rows:
    """What of a dense operator has rows.

    Args:
        dense: its schema.
        kept: input letters with R rows -> the outputs that overwrite them.
        rows: input letters with a row for each index.
    """

    dense: OpSchema
    kept: Mapping[str, str]
    rows: tuple[str, ...]

    @property
    def first(self) -> str:
        """The letter whose rows the others have to have."""
        return next(iter(self.kept))


ON_ROWS: dict[str, Rows] = {}
"""Of each update of rows that was declared, what `on_rows` was given."""


@dataclass(frozen=True, slots=True)
class RowFormulas:
    """What an update makes of a row, as formulas; names are letters, arguments, and `mean`.

    Attributes:
        each: output letter -> its elements in the row, which may hang on the outputs of `row`.
        row: output letter -> the number that it has for each row.
        mean: what is averaged over the elements of the row first.
        scalars: numbers that all rows share, by the names that stand for them.
    """

    each: Mapping[str, Expression]
    row: Mapping[str, Expression] = field(default_factory=dict[str, Expression])
    mean: Expression | None = None
    scalars: Mapping[str, Expression] = field(default_factory=dict[str, Expression])

    @property
    def shown(self) -> tuple[Expression, ...]:
        """All of them that are computed for each row."""
        return (*self.each.values(), *self.row.values(), *(() if self.mean is None else (self.mean,)))

    def with_names(self, names: Mapping[str, Expression]) -> RowFormulas:
        """Return the same over other values."""
        each, row = (
            {letter: one.substitute(_of(names, one)) for letter, one in part.items()} for part in (self.each, self.row)
        )
        mean = None if self.mean is None else self.mean.substitute(_of(names, self.mean))
        return RowFormulas(each, row, mean, self.scalars)


def _of(names: Mapping[str, Expression], expression: Expression) -> dict[str, Expression]:
    return {name: names.get(name, Expression.parse(name)) for name in expression.names}


def row_formulas(op: OpView, dense: OpSchema | None = None) -> RowFormulas | None:
    """Return what an update makes of a row; None where the dense operator has no formula, that of `on_rows` if any."""
    of = ON_ROWS[op.type].dense if dense is None else dense
    found = formulas_of(op, of)
    return RowFormulas(found, scalars=scalars_of(op, of)) if set(op.output_letters) <= found.keys() else None


def on_rows(
    of: Rows,
    type: str,
    letters: Sequence[str],
    example: str,
    *,
    optional: Collection[str] = (),
    source: str = "Caffe2",
) -> OpSchema:
    """Declare the update of rows that does what `of.dense` does, with its letters and `indices` in this order.

    Of the dense operator's optional outputs it has those of `optional`.
    """
    dense, kept = of.dense, of.kept
    dense.row_type = type
    outputs = [spec for spec in dense.outputs if not spec.optional or spec.name in optional]
    free = {spec.name for spec in outputs}.difference(kept.values())
    made = schema(
        type,
        f"""As {dense.type}, for the rows that `indices` picks.

        {", ".join(kept)} have R rows, {", ".join(of.rows)} one for each index; rows of an index that stands
        there several times are updated as often, in turn.""",
        inputs=[INDICES if letter == "indices" else _row_spec(dense, letter) for letter in letters],
        outputs=[blob(spec.name, like=spec.like, optional=spec.optional) for spec in outputs],
        args=dense.args.values(),
        in_place={out: over for out, over in dense.in_place.items() if out in free},
        must_in_place={out: letter for letter, out in kept.items()},
        effects=Effects.PURE,
        no_gradient=dense.gradient_rule if isinstance(dense.gradient_rule, NoGradient) else None,
        source=source,
        example=example,
    )
    made.module, ON_ROWS[type] = dense.module, of  # the file that calls, where the index finds it

    @made.infer
    def infer(op: OpView, indices: TensorSpec, **specs: TensorSpec) -> tuple[TensorSpec, ...]:
        _check_shapes(op, of, indices, specs)
        return tuple(specs[str(op.schema.outputs_by_letter[letter].like)] for letter in op.output_letters)

    @made.cost
    def cost(op: OpView, indices: TensorSpec, **specs: TensorSpec) -> Cost:
        alike = specs[of.rows[0]].dims
        shown = {
            letter: TensorSpec(alike, spec.dtype) if letter in {*kept, *of.rows} else spec
            for letter, spec in specs.items()
        }
        definition = OperatorDef(type=dense.type, arg=op.definition.arg, output=op.output_letters)
        definition.input.extend(dense.inputs_by_letter)
        found = dense.infer_cost(
            dense.typed_view(definition),
            [shown[letter] for letter in dense.inputs_by_letter],
            [shown[str(dense.outputs_by_letter[letter].like)] for letter in op.output_letters],
        )
        read = found.bytes_read + indices.nbytes
        return Cost(found.flops, read, found.bytes_written, specs[of.first].nbytes)

    return made


def _row_spec(dense: OpSchema, letter: str) -> BlobSpec:
    spec = dense.inputs_by_letter[letter]
    return blob(letter, spec.dtypes, host=spec.host, role=spec.role, doc=spec.doc)


def _check_shapes(op: OpView, of: Rows, indices: TensorSpec, specs: dict[str, TensorSpec]) -> None:
    first = specs[of.first]
    for letter in of.kept:
        spec = specs[letter]
        if spec.dims is not None and first.dims is not None:
            relation = f"{letter} has the shape {show_dims(spec.dims)}, {of.first} has {show_dims(first.dims)}"
            op.require(len(spec.dims) > 0, f"{letter} has rank 0, it must have rows")
            op.require(agree(product(spec.dims), product(first.dims)) and agree(spec.dims[0], first.dims[0]), relation)
    for letter in of.rows:
        spec = specs[letter]
        if None not in (spec.dims, first.dims, indices.dims):
            wanted = product((*(indices.dims or ()), *(first.dims or ())[1:]))
            relation = (
                f"{letter} has {product(spec.dims or ())} elements, the rows of {of.first} that indices pick have"
            )
            op.require(agree(product(spec.dims or ()), wanted), f"{relation} {wanted}", "one row for each index")
    for letter, spec in specs.items():
        if letter not in of.kept and letter not in of.rows and spec.dims is not None:
            op.require(agree(product(spec.dims), 1), f"{letter} has the shape {show_dims(spec.dims)}, not 1 element")


def require_rows(op: OpView, W: TensorSpec, indices: TensorSpec, dW: TensorSpec) -> None:
    """Require that dW has a row of W for each index.

    Raises:
        ShapeError: it has not, or W has no rows.
    """
    op.require(W.dims is None or len(W.dims) > 0, "W has rank 0, it must have rows")
    if None not in (W.dims, indices.dims, dW.dims):
        wanted, found = product((*(indices.dims or ()), *(W.dims or ())[1:])), product(dW.dims or ())
        op.require(agree(wanted, found), f"dW has {found} elements, the rows of W that indices pick have {wanted}")


def occurrences(indices: Array) -> Iterator[Array]:
    """Yield the places of all first occurrences of indices, then those of all second ones ...

    >>> [places.tolist() for places in occurrences(np.array([4, 0, 4, 2, 4]))]
    [[0, 1, 3], [2], [4]]
    """
    order = np.argsort(indices, kind="stable")
    grouped = indices[order]
    begins = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if indices.size else np.zeros(0, np.int64)
    sizes = np.diff(np.r_[begins, indices.size])
    number = places_within(sizes)
    for turn in range(int(sizes.max(initial=0))):
        yield np.sort(order[number == turn])


def carried(state: Array, after: Array) -> Array:
    """Return `after`, which holds what `state` does: it is copied only where the two are not one, as it is large."""
    if after is not state:
        np.copyto(after, state)
    return after


def update_rows(op: OpView, of: Rows, compute: Callable[..., None], **arrays: Array) -> None:
    """Do what the kernel `compute` of the dense operator does, in the rows that `indices` picks; for reference kernels.

    Args:
        op: the operator on rows.
        of: what `on_rows` was given.
        compute: its reference kernel.
        **arrays: by letter, all inputs and outputs of the operator on rows.

    Raises:
        NumericError: an index is none of a row.
    """
    rows, dense, kept = arrays["indices"].reshape(-1), of.dense, of.kept
    first = arrays[of.first]
    check_rows(op, rows, len(first), "indices")
    of_rows = {spec.name for spec in dense.outputs} & arrays.keys() - set(kept.values()) | set(of.rows)
    by_index = {letter: arrays[letter].reshape(rows.size, *first.shape[1:]) for letter in of_rows}
    others = {spec.name: arrays[spec.name] for spec in dense.inputs if spec.name not in {*kept, *of_rows}}
    absent = dict.fromkeys(spec.name for spec in dense.outputs if spec.name not in arrays)
    for letter, out in kept.items():
        carried(arrays[letter], arrays[out])
    for places in occurrences(rows):
        at = rows[places]
        state = {letter: arrays[out][at] for letter, out in kept.items()}
        results = {out: np.empty_like(state[letter]) for letter, out in kept.items()}
        data = {letter: array[places] for letter, array in by_index.items()}
        compute(op, **others, **state, **data, **results, **absent)
        for out, result in results.items():
            arrays[out][at] = result
        for spec in dense.outputs:
            if spec.name in by_index:
                by_index[spec.name][places] = data[spec.name]
