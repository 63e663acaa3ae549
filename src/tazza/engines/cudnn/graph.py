"""Graphs of operations for cuDNN: a convolution in one of its three directions, and what follows it element by element.

Tensors have letters, whose numbers by which the library asks for addresses are those of `LETTERS`. Extents and steps
are those of images with the channels first, however they lie.
"""

from __future__ import annotations

from enum import Enum

from tazza.data_class import dataclass
from tazza.engines.cudnn.descriptor import AttributeValue, Descriptor, Maker, nested, one_of, whole
from tazza.tensor import DataType

TYPES = {DataType.FLOAT: "DATA_FLOAT", DataType.FLOAT16: "DATA_HALF", DataType.BFLOAT16: "DATA_BFLOAT16"}
LETTERS = ("X", "W", "Y", "b", "S")
"""What may be read or written: image, filters, result, bias, and something of the shape of the result."""


class Direction(Enum):
    """Which of a convolution's tensors is computed of the other two."""

    FORWARD = "Y"
    BACKWARD_DATA = "X"
    BACKWARD_FILTER = "W"


@dataclass(frozen=True, slots=True)
class Form:
    """How a tensor lies: extents with the channels first, and steps in elements."""

    dims: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a convolution over its image, of two or three dimensions."""

    head: tuple[int, ...]
    tail: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]


_NAMES = {
    Direction.FORWARD: ("OPERATION_CONVOLUTION_FORWARD", ("X", "W", "Y")),
    Direction.BACKWARD_DATA: ("OPERATION_CONVOLUTION_BWD_DATA", ("DX", "W", "DY")),
    Direction.BACKWARD_FILTER: ("OPERATION_CONVOLUTION_BWD_FILTER", ("X", "DW", "DY")),
}
"""What attributes of an operation are called: what they begin with, and the names of X, W and Y."""


class Behind(Enum):
    """What may follow a convolution."""

    BIAS = "b"
    OPERAND = "S"
    RELU = "RELU"
    STRICT_RELU = "STRICT_RELU"  # what is no number gives none, where RELU gives 0


_NAN = {Behind.RELU: "NOT_PROPAGATE", Behind.STRICT_RELU: "PROPAGATE"}


@dataclass(frozen=True, slots=True)
class Problem:
    """All that a plan depends on, but for the device and what is asked of the plan.

    Attributes:
        direction: what is computed.
        dtype: of all tensors.
        X: the image.
        W: the filters; groups follow from their channels.
        Y: the result.
        windows: those of the convolution.
        compute: in what sums are made, `DATA_FLOAT` or `DATA_HALF`.
        steps: what follows, in this order.
        alignment: of what number of bytes all addresses are multiples.
    """

    direction: Direction
    dtype: DataType
    X: Form
    W: Form
    Y: Form
    windows: Windows
    compute: str = "DATA_FLOAT"
    steps: tuple[Behind, ...] = ()
    alignment: int = 16

    @property
    def letters(self) -> tuple[str, ...]:
        """What addresses a plan is given."""
        extra = {Behind.BIAS: "b", Behind.OPERAND: "S"}
        return ("X", "W", "Y", *(extra[step] for step in self.steps if step in extra))

    @property
    def forms(self) -> dict[str, Form]:
        """How all that there may be lies, by letter."""
        return {"X": self.X, "W": self.W, "Y": self.Y, "b": bias_of(self.Y), "S": self.Y}

    @property
    def empty(self) -> bool:
        """Whether nothing is multiplied."""
        return any(0 in form.dims for form in (self.X, self.W, self.Y))


def bias_of(form: Form) -> Form:
    """Return how a bias for the channels of X or Y lies.

    >>> bias_of(Form((2, 3, 5, 1), (15, 1, 3, 3)))
    Form(dims=(1, 3, 1, 1), steps=(3, 1, 1, 1))
    """
    ones = (1,) * (len(form.dims) - 2)
    return Form((1, form.dims[1], *ones), (max(1, form.dims[1]), 1, *ones))


def number_of(letter: str) -> int:
    """Return the number that the library knows a tensor by."""
    return LETTERS.index(letter) + 1


def operation_graph(maker: Maker, problem: Problem) -> Descriptor:
    """Return the graph of a problem.

    Raises:
        KernelError: the library knows no such operation.
    """
    forms = problem.forms
    between = [_tensor(maker, problem, problem.Y, 100 + n, virtual=True) for n in range(len(problem.steps))]
    tensors = {letter: _tensor(maker, problem, forms[letter], number_of(letter)) for letter in problem.letters}
    results = [*between, tensors[problem.direction.value]]
    operations = [_convolution(maker, problem, tensors | {problem.direction.value: results[0]})]
    for place, step in enumerate(problem.steps):
        other = tensors.get(step.value)
        operations.append(_pointwise(maker, step, results[place], other, results[place + 1]))
    device = {} if maker.properties is not None else maker.of_device("OPERATIONGRAPH")
    return maker.make("OPERATIONGRAPH", OPERATIONGRAPH_OPS=nested(*operations), **device)


def _tensor(maker: Maker, problem: Problem, form: Form, number: int, *, virtual: bool = False) -> Descriptor:
    return maker.make(
        "TENSOR",
        TENSOR_UNIQUE_ID=whole(number),
        TENSOR_DATA_TYPE=one_of("DATA_TYPE", problem.compute if virtual else TYPES[problem.dtype]),
        TENSOR_BYTE_ALIGNMENT=whole(problem.alignment),
        TENSOR_DIMENSIONS=whole(*form.dims),
        TENSOR_STRIDES=whole(*form.steps),
        TENSOR_IS_VIRTUAL=AttributeValue("BOOLEAN", (virtual,)),
    )


def _convolution(maker: Maker, problem: Problem, tensors: dict[str, Descriptor]) -> Descriptor:
    windows = problem.windows
    described = maker.make(
        "CONVOLUTION",
        CONVOLUTION_SPATIAL_DIMS=whole(len(windows.stride)),
        CONVOLUTION_COMP_TYPE=one_of("DATA_TYPE", problem.compute),
        CONVOLUTION_CONV_MODE=one_of("CONVOLUTION_MODE", "CROSS_CORRELATION"),
        CONVOLUTION_PRE_PADDINGS=whole(*windows.head),
        CONVOLUTION_POST_PADDINGS=whole(*windows.tail),
        CONVOLUTION_DILATIONS=whole(*windows.dilation),
        CONVOLUTION_FILTER_STRIDES=whole(*windows.stride),
    )
    prefix, names = _NAMES[problem.direction]
    return maker.make(
        f"OPERATION_CONVOLUTION_{problem.direction.name}",
        **{
            f"{prefix}_CONV_DESC": nested(described),
            f"{prefix}_ALPHA": AttributeValue("FLOAT", (1.0,)),
            f"{prefix}_BETA": AttributeValue("FLOAT", (0.0,)),
            **{f"{prefix}_{name}": nested(tensors[letter]) for letter, name in zip("XWY", names, strict=True)},
        },
    )


def _pointwise(maker: Maker, step: Behind, X: Descriptor, B: Descriptor | None, Y: Descriptor) -> Descriptor:
    mode, nan = ("ADD", "NOT_PROPAGATE") if B is not None else ("RELU_FWD", _NAN[step])
    described = maker.make(
        "POINTWISE",
        POINTWISE_MODE=one_of("POINTWISE_MODE", f"POINTWISE_{mode}"),
        POINTWISE_MATH_PREC=one_of("DATA_TYPE", "DATA_FLOAT"),
        POINTWISE_NAN_PROPAGATION=one_of("NAN_PROPOGATION", f"{nan}_NAN"),
    )
    read = {"XDESC": nested(X)} | ({} if B is None else {"BDESC": nested(B)})
    return maker.make(
        "OPERATION_POINTWISE",
        OPERATION_POINTWISE_PW_DESCRIPTOR=nested(described),
        OPERATION_POINTWISE_YDESC=nested(Y),
        **{f"OPERATION_POINTWISE_{name}": value for name, value in read.items()},
    )
