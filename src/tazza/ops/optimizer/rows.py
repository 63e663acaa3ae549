"""Updates of some rows: what an update of a whole parameter does, for the rows that indices pick.

    SPARSE_ADAGRAD = on_rows(ADAGRAD, "SparseAdagrad", ["W", "M", "indices", "dW", "lr"], example)

    @kernel(SPARSE_ADAGRAD)
    def sparse_adagrad(op, W, M, indices, dW, lr, W_next, M_next):
        update_rows(op, ADAGRAD, adagrad, W=W, M=M, indices=indices, dW=dW, lr=lr, W_next=W_next, M_next=M_next)

Letters as in the dense operator. What it must keep (parameters and state with as many rows as W) is overwritten in the
rows that `indices` (K, of any shape) picks; each of K rows of the gradient belongs to one of them, and what the dense
operator makes of the gradient has a row for each as well. Everything else, a rate for example, is read as it is. An
index that stands there several times is updated as often, one time after the other, as Caffe2 does it.

`update_rows` calls the dense operator's reference kernel for all first occurrences of indices at once, then for all
second ones, and so on: rows of one call are all different.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from tazza.operator import (
    INDEX,
    Array,
    BlobSpec,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    blob,
    schema,
    show_dims,
)
from tazza.operator.gradient import NoGradient
from tazza.ops.shape.axis import agree, product
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import TensorSpec

INDICES = blob("indices", INDEX, role=Role.INDEX, doc="K rows of any shape, each in [0, R)")


def on_rows(dense: OpSchema, type: str, letters: Sequence[str], example: str, *, source: str = "Caffe2") -> OpSchema:
    """Declare the update of rows that does what `dense` does, with its letters and `indices` in this order.

    The dense operator's inputs that are kept and of which an output may be written in place are those with R rows;
    its inputs that are data have K rows.
    """
    kept = _kept(dense)
    outputs = [spec for spec in dense.outputs if not spec.optional]
    made = schema(
        type,
        f"""As {dense.type}, for the rows that `indices` picks.

        {", ".join(kept)} have R rows, {", ".join(_of_rows(dense))} one for each index; rows of an index that stands
        there several times are updated as often, in turn.""",
        inputs=[INDICES if letter == "indices" else _row_spec(dense, letter) for letter in letters],
        outputs=[blob(spec.name, like=spec.like) for spec in outputs],
        args=dense.args.values(),
        in_place={out: over for out, over in dense.in_place.items() if out not in kept.values()},
        must_in_place={out: letter for letter, out in kept.items()},
        effects=Effects.PURE,
        no_gradient=dense.gradient_rule if isinstance(dense.gradient_rule, NoGradient) else None,
        source=source,
        example=example,
    )
    made.module = dense.module  # the file that calls, where the index finds it

    @made.infer
    def infer(op: OpView, indices: TensorSpec, **specs: TensorSpec) -> tuple[TensorSpec, ...]:
        _check_shapes(op, dense, list(kept), indices, specs)
        return tuple(specs[str(op.schema.outputs_by_letter[letter].like)] for letter in op.output_slots)

    @made.cost
    def cost(op: OpView, indices: TensorSpec, **specs: TensorSpec) -> Cost:
        del op
        (moved,) = (specs[letter] for letter in _of_rows(dense)[:1])
        touched = len(kept) * moved.nbytes
        first = specs[next(iter(kept))]
        return Cost((4 + 4 * len(kept)) * moved.size, indices.nbytes + moved.nbytes + touched, touched, first.nbytes)

    return made


def _kept(dense: OpSchema) -> dict[str, str]:
    """Return the letters that the dense operator keeps -> the outputs that may be written over them."""
    over = {str(places[0]): out for out, places in dense.in_place.items()}
    return {letter: out for letter, out in over.items() if dense.inputs_by_letter[letter].role is not Role.DATA}


def _of_rows(dense: OpSchema) -> list[str]:
    return [spec.name for spec in dense.inputs if spec.role is Role.DATA]


def _row_spec(dense: OpSchema, letter: str) -> BlobSpec:
    spec = dense.inputs_by_letter[letter]
    return blob(letter, spec.dtypes, host=spec.host, role=spec.role, doc=spec.doc)


def _check_shapes(
    op: OpView, dense: OpSchema, kept: Sequence[str], indices: TensorSpec, specs: dict[str, TensorSpec]
) -> None:
    first = specs[kept[0]]
    for letter in kept:
        spec = specs[letter]
        if spec.dims is not None and first.dims is not None:
            relation = f"{letter} has the shape {show_dims(spec.dims)}, {kept[0]} has {show_dims(first.dims)}"
            op.require(len(spec.dims) > 0, f"{letter} has rank 0, it must have rows")
            op.require(agree(product(spec.dims), product(first.dims)) and agree(spec.dims[0], first.dims[0]), relation)
    for letter in _of_rows(dense):
        spec = specs[letter]
        if None not in (spec.dims, first.dims, indices.dims):
            wanted = product((*(indices.dims or ()), *(first.dims or ())[1:]))
            relation = f"{letter} has {product(spec.dims or ())} elements, the rows of {kept[0]} that indices pick have"
            op.require(agree(product(spec.dims or ()), wanted), f"{relation} {wanted}", "one row for each index")
    for letter, spec in specs.items():
        if letter not in kept and letter not in _of_rows(dense) and spec.dims is not None:
            op.require(agree(product(spec.dims), 1), f"{letter} has the shape {show_dims(spec.dims)}, not 1 element")


def occurrences(indices: Array) -> Iterator[Array]:
    """Yield the places of all first occurrences of indices, then those of all second ones ...

    >>> [list(places) for places in occurrences(np.array([4, 0, 4, 2, 4]))]
    [[0, 1, 3], [2], [4]]
    """
    order = np.argsort(indices, kind="stable")
    grouped = indices[order]
    begins = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]]) if indices.size else np.zeros(0, np.int64)
    sizes = np.diff(np.r_[begins, indices.size])
    number = np.arange(indices.size) - np.repeat(begins, sizes)
    for turn in range(int(sizes.max(initial=0))):
        yield np.sort(order[number == turn])


def update_rows(op: OpView, dense: OpSchema, compute: Callable[..., None], **arrays: Array) -> None:
    """Do what the kernel `compute` of the dense operator does, in the rows that `indices` picks; for reference kernels.

    Args:
        op: the operator on rows.
        dense: the schema of the other.
        compute: its reference kernel.
        **arrays: by letter, all inputs and outputs of the operator on rows.

    Raises:
        NumericError: an index is none of a row.
    """
    rows, kept = arrays["indices"].reshape(-1), _kept(dense)
    first = arrays[next(iter(kept))]
    check_rows(op, rows, len(first), "indices")
    of_rows = {spec.name for spec in dense.outputs} & arrays.keys() - set(kept.values()) | set(_of_rows(dense))
    by_index = {letter: arrays[letter].reshape(rows.size, *first.shape[1:]) for letter in of_rows}
    others = {spec.name: arrays[spec.name] for spec in dense.inputs if spec.name not in {*kept, *of_rows}}
    absent = dict.fromkeys(spec.name for spec in dense.outputs if spec.name not in arrays)
    for letter, out in kept.items():
        if arrays[out] is not arrays[letter]:
            np.copyto(arrays[out], arrays[letter])
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
