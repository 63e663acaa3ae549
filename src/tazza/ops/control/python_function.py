"""Functions of the running process as operators: Python, PythonDLPack, and their gradients.

A net names a function by a token, under which `register_python` has put it; nothing is pickled or unpickled. The
function gets lists of inputs and outputs, tensors as it sees them (`PythonTensor`, `DLPackTensor`), and with
`pass_workspace` the workspace as a third argument. What it raises reaches whoever runs the net.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DTypeError, DuplicateError, NotFoundError, TrustError
from tazza.operator import (
    BlobOwner,
    Effects,
    GradientRequest,
    NoGradient,
    Operator,
    OpSchema,
    OpView,
    anything,
    arg,
    blob,
    family,
    host_kernel,
    not_written,
    schema,
)
from tazza.proto import OperatorDef
from tazza.tensor import Blob, DataType, Tensor


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """What a token stands for."""

    function: Callable[..., object]
    gradient: Callable[..., object] | None
    pass_workspace: bool
    builds: bool = False


_functions: dict[str, PythonFunction] = {}


def register_python(
    function: Callable[..., object],
    gradient: Callable[..., object] | None = None,
    *,
    token: str | None = None,
    pass_workspace: bool = False,
    builds: bool = False,
) -> str:
    """Let nets of this process call a function; returns the token by which the argument `token` names it.

    Args:
        function: `function(inputs, outputs)`; it feeds the outputs, or reshapes them and writes their `data`.
        gradient: the same for PythonGradient: its inputs are those of the function, then its outputs, then the
            gradients of these; its outputs are the gradients of the inputs.
        token: by default made of the function's name.
        pass_workspace: call them with the workspace as a third argument.
        builds: both are called once by each operator, without arguments, and return the function that it calls: what
            that function keeps is the operator's own.

    Raises:
        DuplicateError: the token is taken.

    >>> token = register_python(lambda inputs, outputs: outputs[0].feed(inputs[0].data + 1), token="one more")
    >>> from tazza.operator import run_op
    >>> run_op("Python", [1.0, 2.0], token=token)
    array([2., 3.], dtype=float32)
    >>> forget_python(token)
    """
    name = getattr(function, "__name__", type(function).__name__)
    tries = (f"{name}:{count}" if count else name for count in itertools.count())
    chosen = next(each for each in tries if each not in _functions) if token is None else token
    if chosen in _functions:
        raise DuplicateError(
            f"the token {chosen!r} stands for a function already", hint="forget_python, or another one"
        )
    _functions[chosen] = PythonFunction(function, gradient, pass_workspace, builds)
    return chosen


def register_python_gradient(token: str, gradient: Callable[..., object]) -> None:
    """Give a registered function its gradient afterwards, in place of the one that it may have.

    Raises:
        NotFoundError: no function is registered under this token.
    """
    _functions[token] = replace(_found(token), gradient=gradient)


def is_passed_workspace(token: str) -> bool:
    """Whether the function of a token is called with the workspace.

    Raises:
        NotFoundError: no function is registered under this token.
    """
    return _found(token).pass_workspace


def _found(token: str) -> PythonFunction:
    found = _functions.get(token)
    if found is None:
        raise NotFoundError(f"no function of this process is registered as {token!r}")
    return found


def forget_python(token: str) -> None:
    """Take back what `register_python` gave; operators that exist keep their function."""
    _functions.pop(token, None)


class PythonTensor:
    """A tensor as a function of `Python` sees it."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        """Show a tensor of the host."""
        self.tensor = tensor

    @property
    def data(self) -> NDArray[Any]:
        """The elements: a view, which writes through. An output has to be fed, reshaped or initialized before."""
        return self.tensor.numpy()

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(self.tensor.shape)

    def reshape(self, dims: Iterable[SupportsIndex]) -> None:
        """Take other extents; the element type stays."""
        self.tensor.resize(tuple(dims))

    def init(self, dims: Iterable[SupportsIndex], data_type: int) -> None:
        """Take extents and an element type by its number in `TensorProto`.

        Raises:
            DTypeError: the type is that of texts, which are fed.
        """
        dtype = DataType.from_proto(data_type)
        if dtype is DataType.STRING:
            raise DTypeError("a tensor of texts is not made by init", hint="feed it an array of texts")
        self.tensor.resize(tuple(dims), dtype)

    def feed(self, array: ArrayLike) -> None:
        """Take shape, element type and a copy of the elements of an array."""
        self.tensor.assign(np.asarray(array))

    def fetch(self) -> NDArray[Any]:
        """Return a copy of the elements."""
        return self.tensor.copied()


class DLPackTensor:
    """A tensor as a function of `PythonDLPack` sees it: its memory goes to other libraries without copying."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        """Show a tensor of the host."""
        self.tensor = tensor

    @property
    def data(self) -> object:
        """A new DLPack capsule over the memory."""
        return self.tensor.__dlpack__()

    @property
    def _shape(self) -> list[int]:
        return list(self.tensor.shape)

    def _reshape(self, dims: Iterable[SupportsIndex]) -> None:
        self.tensor.resize(tuple(dims))

    def feed(self, source: Any) -> None:
        """Take the elements of a DLPack capsule, or of an array that exports one."""
        given = source if hasattr(source, "__dlpack__") else _Capsule(source)
        self.tensor.assign(Tensor.from_dlpack(given).plain())


class _Capsule:
    """A capsule of the host's memory, for who asks an object for it."""

    def __init__(self, capsule: object) -> None:
        if type(capsule).__name__ != "PyCapsule":
            raise ArgumentError(f"a {type(capsule).__name__} is no DLPack capsule", hint="feed x.__dlpack__(), or x")
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


ARGUMENTS = [
    arg("token", str, "", doc="what `register_python` gave"),
    arg("grad_output_indices", list[int], [], doc="outputs whose gradient the gradient function gets; none: all"),
    arg("grad_input_indices", list[int], [], doc="inputs whose gradient it gives; none: all"),
    arg("pickled_builder", bytes, b"", doc="refused: nothing is unpickled"),
    arg("pickled_grad_builder", bytes, b"", doc="refused as well"),
    arg("pass_workspace", bool, False, doc="has no effect: `register_python` says it"),
]


class PythonKernel:
    """Calls the function of a token, or its gradient; it is looked for at the first run."""

    seen: type[PythonTensor | DLPackTensor] = PythonTensor
    backward = False

    def __init__(self, operator: Operator) -> None:
        del operator
        self._found: tuple[Callable[..., object], bool] | None = None

    def _function(self, op: OpView) -> tuple[Callable[..., object], bool]:
        """Return the function, and whether it gets the workspace.

        Raises:
            NotFoundError: nobody registered it, or not its gradient.
        """
        found = _functions.get(op.token)
        if found is None:
            raise op.error(
                NotFoundError,
                f"no function of this process is registered as {op.token!r}",
                "register_python does that; each process needs its own",
            )
        function = found.gradient if self.backward else found.function
        if function is None:
            raise op.error(NotFoundError, f"{op.token!r} was registered without a gradient")
        return (_built(function) if found.builds else function), found.pass_workspace

    def run(self, op: OpView, workspace: BlobOwner, X: tuple[Blob, ...], Y: tuple[Blob, ...]) -> None:
        if self._found is None:
            self._found = self._function(op)
        function, pass_workspace = self._found
        shown = {id(blob): _on_host(blob) for blob in (*X, *Y)}
        inputs, outputs = ([self.seen(shown[id(blob)]) for blob in blobs] for blobs in (X, Y))
        function(inputs, outputs, *([workspace] if pass_workspace else []))
        for target in Y:
            tensor, mine = shown[id(target)], target.tensor()
            if tensor is not mine:
                mine.assign(tensor.plain())


def _built(builder: Callable[..., Any]) -> Callable[..., object]:
    """Return the function that a builder makes for one operator."""
    return builder()


def _on_host(blob: Blob) -> Tensor:
    """Return the tensor of a blob; where that lies on a device, another one with its elements."""
    if not blob.is_tensor:
        blob.reset()
    tensor = blob.tensor()
    if tensor.place.is_host:
        return tensor
    copy = Tensor((0,), tensor.dtype)
    if tensor.allocated:
        copy.assign(tensor.plain())
    return copy


def _gradient_maker(type: str) -> Callable[[GradientRequest], list[OperatorDef]]:
    """Return what emits the gradient operator: it reads all inputs and outputs, and gradients of chosen outputs."""

    def make(g: GradientRequest) -> list[OperatorDef]:
        inputs, outputs = range(len(g.definition.input)), range(len(g.definition.output))
        asked: Sequence[int] = g.op.grad_output_indices if g.op.grad_output_indices else outputs
        given: Sequence[int] = g.op.grad_input_indices if g.op.grad_input_indices else inputs
        # Only the function knows what it reads; of an input in place it gets what was written over it, as in Caffe2.
        names = [*map(g.like, inputs), *map(g.O, outputs), *map(g.GO, asked)]
        return g.emit(type, names, [g.GI(i) for i in given])

    return make


class PythonGradientKernel(PythonKernel):
    """Calls the gradient."""

    backward = True


class DLPackKernel(PythonKernel):
    """Shows tensors as DLPack."""

    seen = DLPackTensor


class DLPackGradientKernel(DLPackKernel):
    """Calls the gradient, and shows tensors as DLPack."""

    backward = True


@dataclass(frozen=True, slots=True)
class PythonOperator:
    """What tells one operator from another; what has no gradient operator says why."""

    doc: str
    kernel: type[PythonKernel]
    example: str
    gradient: str | None = None
    no_gradient: NoGradient | None = None


def python_infer(op: OpView, X: object) -> tuple[None, ...]:
    del X  # only the function knows
    return (None,) * len(op.output_letters)


def python_validate(op: OpView) -> None:
    if op.pickled_builder or op.pickled_grad_builder:
        raise op.error(
            TrustError,
            "a pickled function is not loaded: unpickling runs whatever its author wrote",
            "register the function by register_python, and name its token",
        )
    if not op.token:
        raise op.error(ArgumentError, "the argument 'token' is missing", "register_python gives one")


@family(
    {
        "Python": PythonOperator(
            """Y = what a function of this process makes of X.

            The function `token` is called with lists of X and Y, which it feeds, or reshapes and writes.""",
            PythonKernel,
            """
            >>> from tazza.ops.control.python_function import forget_python, register_python
            >>> token = register_python(lambda inputs, outputs: outputs[0].feed(inputs[0].data * 2))
            >>> run("Python", [1.0, 2.0], token=token)
            array([2., 4.], dtype=float32)
            >>> forget_python(token)
            """,
            gradient="PythonGradient",
        ),
        "PythonGradient": PythonOperator(
            "Y = what the gradient that was registered with the function `token` makes of X.",
            PythonGradientKernel,
            """
            >>> from tazza.ops.control.python_function import forget_python, register_python
            >>> token = register_python(print, lambda inputs, outputs: outputs[0].feed(inputs[0].data * 2))
            >>> run("PythonGradient", [1.0, 2.0], token=token)
            array([2., 4.], dtype=float32)
            >>> forget_python(token)
            """,
            no_gradient=not_written("it is a gradient itself"),
        ),
        "PythonDLPack": PythonOperator(
            """Y = what a function of this process makes of X, of which it gets DLPack capsules (`data`).

            Other libraries read and write the memory behind them without copying.""",
            DLPackKernel,
            """
            >>> from tazza.ops.control.python_function import forget_python, register_python
            >>> token = register_python(lambda inputs, outputs: outputs[0].feed(inputs[0].data))
            >>> run("PythonDLPack", [1.0, 2.0], token=token)
            array([1., 2.], dtype=float32)
            >>> forget_python(token)
            """,
            gradient="PythonDLPackGradient",
        ),
        "PythonDLPackGradient": PythonOperator(
            "Y = what the gradient that was registered with the function `token` makes of X, both as in PythonDLPack.",
            DLPackGradientKernel,
            """
            >>> from tazza.ops.control.python_function import forget_python, register_python
            >>> token = register_python(print, lambda inputs, outputs: outputs[0].feed(inputs[0].data))
            >>> run("PythonDLPackGradient", [1.0, 2.0], token=token)
            array([1., 2.], dtype=float32)
            >>> forget_python(token)
            """,
            no_gradient=not_written("it is a gradient itself"),
        ),
    }
)
def python_functions(type: str, row: PythonOperator) -> OpSchema:
    """A function of the running process, or the gradient of one."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", variadic=True, optional=True)],
        outputs=[blob("Y", variadic=True, optional=True)],
        args=ARGUMENTS,
        in_place=anything(),
        effects=Effects.IO,
        no_gradient=row.no_gradient,
        source="Caffe2",
        example=row.example,
    )
    made.infer(python_infer)
    made.validate(python_validate)
    if row.gradient is not None:
        made.gradient(_gradient_maker(row.gradient))
    host_kernel(made, calls_others=True)(row.kernel)
    return made
