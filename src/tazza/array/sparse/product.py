"""Products of sparse and dense matrices, by whichever engine takes them."""

from __future__ import annotations

import numpy as np

from tazza.array.operand import result_for
from tazza.array.sparse.coo import COO
from tazza.array.sparse.csr import CSR
from tazza.array.sparse.kept_form import KeptForm
from tazza.array.sparse.matrix import SparseMatrix
from tazza.array.sparse.parts import Array, ArrayLike, plain
from tazza.array.sparse.results import Results
from tazza.array.sparse.task import SPARSE_ENGINES, Addressed, Form, Multiply, Prepared, SparseTask
from tazza.data_class import dataclass
from tazza.errors import ShapeError, UnsupportedError
from tazza.runtime.flags import kernel_changes
from tazza.runtime.threads import thread_count
from tazza.tensor.allocation import address_of, new_array
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import Opaque
from tazza.tensor.promotion import promote
from tazza.tensor.spec import TensorSpec
from tazza.tensor.tensor import Tensor


def sparse_matmul(
    left: SparseMatrix | ArrayLike,
    right: SparseMatrix | ArrayLike,
    *,
    transpose: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Return left @ right, one of which is sparse, the other a dense matrix or vector; the result is dense.

    Letters: the sparse matrix S, brought into CSR where it is not, is R x C. S @ D takes D (C, N) or (C); D @ S takes
    (N, R) or (R). Sums of 16-bit numbers are made in float32. Rows of S are never divided among threads, so that a
    result does not depend on their number.

    Args:
        left: S or D.
        right: D or S.
        transpose: take S.T instead of S, which is not made for it.
        out: where to write, of the shape and element type of the result; may overlap the operands.

    Raises:
        ShapeError: the inner extents differ, the dense operand is neither matrix nor vector, or `out` does not fit.
        DTypeError: `out` has another element type.
        UnsupportedError: both operands are sparse, or none is.

    >>> from tazza.array.sparse import CSR
    >>> S = CSR.from_dense(np.float32([[0, 2, 0], [3, 0, 4]]))
    >>> sparse_matmul(S, np.float32([1, 10]), transpose=True).numpy()
    array([30.,  2., 40.], dtype=float32)
    """
    left, right = _by_rows(left), _by_rows(right)
    again = _same_again(left, right, transpose) if out is None else None
    if again is not None:
        return again
    plan = _plan(left, right, transpose)
    result = Tensor(plan.result_shape, plan.dtype) if out is None else _checked_out(out, plan)
    if result.size == 0:
        return result
    direct = out is None or _is_free(result, plan)
    Y = result.array if direct else new_array(plan.result_shape, plan.dtype.numpy)
    _run(plan, Y)
    if not direct:
        np.copyto(result.array, Y)
    result.mark_written()
    return result


def _by_rows(operand: SparseMatrix | ArrayLike) -> CSR | ArrayLike:
    """Return a sparse operand as CSR: of a COO matrix what is kept of it, so that it is sorted once."""
    if not isinstance(operand, SparseMatrix):
        return operand
    if not isinstance(operand, COO):
        return operand.to_csr()
    found = None if operand.kept is None else operand.kept.of(operand)
    if found is None:
        operand.kept = kept = KeptForm(operand)
        found = kept.csr
    return found


def explain_sparse_matmul(
    left: SparseMatrix | ArrayLike, right: SparseMatrix | ArrayLike, *, transpose: bool = False
) -> str:
    """Return which kernel of which engine computes left @ right, the bytes it moves, and why others do not."""
    plan = _plan(_by_rows(left), _by_rows(right), transpose)
    task = _task(plan, np.empty(plan.work_shape, plan.dtype.numpy))
    lines = [
        f"{task.form.value}: S {Dim(task.shape)}, {len(task.values)} elements of {task.dtype}; {task.vectors} vectors",
        f"reads {task.bytes_read} bytes, writes {task.Y.nbytes}, {task.flops} flops",
        str(SPARSE_ENGINES.choose(task)),
    ]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A product: the dense operand as a matrix, and whether operand and result are turned round for it."""

    form: Form
    S: CSR
    D: Array
    dtype: DataType
    result_shape: Dim
    work_shape: tuple[int, int]
    turned: bool


def _plan(left: CSR | ArrayLike, right: CSR | ArrayLike, transpose: bool) -> _Plan:
    if isinstance(left, CSR) and isinstance(right, CSR):
        raise UnsupportedError(f"{left} @ {right}: both are sparse", hint="write A @ B, which gives a sparse matrix")
    from_left = isinstance(right, CSR)
    S = right if isinstance(right, CSR) else left
    if not isinstance(S, CSR):
        raise UnsupportedError("neither operand is sparse", hint="use tazza.tensor.matmul for dense ones")
    D = plain(left if from_left else right)  # pyright: ignore[reportArgumentType] -- S is the other one
    if D.ndim not in (1, 2):
        raise ShapeError(f"the dense operand {Dim(D.shape)} is of rank {D.ndim}", hint="give a matrix or a vector")
    rows, columns = (S.shape[1], S.shape[0]) if transpose else S.shape
    inner, outer = (rows, columns) if from_left else (columns, rows)
    given = D.shape[-1 if from_left else 0]
    if given != inner:
        sides = (Dim(D.shape), Dim((rows, columns)))
        a, b = sides if from_left else sides[::-1]
        raise ShapeError(f"{a} @ {b}: inner extents {a[-1]} != {b[0]}")
    vectors = () if D.ndim == 1 else (D.shape[0 if from_left else 1],)
    shape = Dim((*vectors, outer) if from_left else (outer, *vectors))
    matrix = D.reshape((1, -1) if from_left else (-1, 1)) if D.ndim == 1 else D
    # D @ S.T is (S @ D.T).T, and so are vectors from the left, which need no turning round.
    turned = from_left and (transpose or len(matrix) == 1)
    operand = matrix.T if turned else matrix
    form = Form.FROM_LEFT if from_left and not turned else Form.TRANSPOSED if transpose != turned else Form.ROWS
    work = (len(operand), outer) if form is Form.FROM_LEFT else (outer, operand.shape[1])
    return _Plan(form, S, operand, promote(S.dtype, DataType.of(D)), shape, work, turned)


def _task(plan: _Plan, Y: Array) -> SparseTask:
    S, kind = plan.S, plan.dtype.numpy
    given = plan.D.astype(kind, copy=False)
    D = given if _has_dense_rows(given) else np.ascontiguousarray(given)
    values = S.values.plain().astype(kind, copy=False)
    starts, columns = S.starts.plain(), S.columns.plain()
    return SparseTask(plan.form, (S.shape[0], S.shape[1]), starts, columns, values, D, Y, plan.dtype)


def _run(plan: _Plan, Y: Array) -> None:
    """Write the result into Y, which is row-major."""
    if plan.turned and 1 not in plan.work_shape:
        work = new_array(plan.work_shape, Y.dtype)
    else:
        work = Y.reshape(plan.work_shape)
    task = _task(plan, work)
    if task.D.size == 0 or len(task.values) == 0:
        Y[...] = 0
        return
    multiply = SPARSE_ENGINES.choose(task).run
    multiply(task.D, work)
    _keep(plan, task, multiply)
    if not np.may_share_memory(work, Y):
        np.copyto(Y, work.T)


def _same_again(left: object, right: object, transpose: bool) -> Tensor | None:
    """Compute a product by what the last one of this matrix was computed by; None if that was another kind.

    Preparing a product of some 10,000 elements takes as long as computing it.
    """
    from_left = type(right) is CSR
    S, dense = (right, left) if from_left else (left, right)
    if type(S) is not CSR or S.prepared is None:
        return None
    found, D = S.prepared, dense.plain() if isinstance(dense, Tensor) else dense
    if type(D) is not np.ndarray or found.call != _call(from_left, transpose, D):
        return None
    starts, columns, values = found.parts
    # A tensor has another array as soon as its memory, shape or element type is another.
    if S.starts.array is not starts or S.columns.array is not columns or S.values.array is not values:
        return None
    if found.at is not None:
        # Neither is an array of it made, nor is what is known of its spec worked out again.
        storage = found.results.storage()
        found.at(address_of(D), storage.address)
        storage.mark_written()
        return Tensor.over(storage, 0, found.result)
    result = Tensor(found.result.shape, found.result.dtype)
    Y = result.array
    if D.ndim == 1 or (from_left and len(D) == 1):  # one vector, which need not be turned round
        found.multiply(D.reshape(-1, 1), Y.reshape(-1, 1))
    else:
        found.multiply(D, Y)
    result.mark_written()
    return result


def _call(from_left: bool, transpose: bool, D: Array) -> tuple[object, ...]:
    return (
        from_left,
        transpose,
        D.shape,
        D.strides,
        D.dtype,
        SPARSE_ENGINES.generation,
        thread_count(),
        kernel_changes(),
    )


def _keep(plan: _Plan, task: SparseTask, multiply: Multiply) -> None:
    """Keep a product for the next of its kind, where nothing was converted, copied or moved for it."""
    S, parts = plan.S, (plan.S.starts, plan.S.columns, plan.S.values)
    moved = plan.turned and plan.D.shape[1] != 1
    if moved or task.D is not plan.D or S.dtype is not plan.dtype:
        return
    if any(isinstance(part.layout, Opaque) for part in parts):
        return
    dense = plan.D.T if plan.turned else plan.D
    given = dense.reshape(-1) if len(plan.result_shape) == 1 else dense
    starts, columns, values = (part.array for part in parts)
    from_left = plan.turned or plan.form is Form.FROM_LEFT
    call = _call(from_left, (plan.form is Form.TRANSPOSED) != plan.turned, given)
    at = multiply.at if isinstance(multiply, Addressed) else None
    result = TensorSpec(plan.result_shape, plan.dtype)
    results = Results(result.place, plan.result_shape.numel * plan.dtype.itemsize)
    S.prepared = Prepared(multiply, call, (starts, columns, values), result, results, at)


def _has_dense_rows(array: Array) -> bool:
    """Whether neighbours in a row are adjacent, and rows lie in ascending order; those of one element adjacent too."""
    pitch, step = array.strides
    item = array.itemsize
    if array.shape[1] == 1:
        return pitch == item
    return step == item and pitch >= 0 and pitch % item == 0


def _checked_out(out: Tensor, plan: _Plan) -> Tensor:
    return result_for(out, plan.result_shape, plan.dtype, "sparse_matmul")


def _is_free(out: Tensor, plan: _Plan) -> bool:
    """Whether a kernel may write to `out`: row-major, and no operand's memory."""
    array, S = out.array, plan.S
    parts = (plan.D, S.values.plain(), S.columns.plain(), S.starts.plain())
    return array.flags.c_contiguous and not any(np.may_share_memory(array, part) for part in parts)
