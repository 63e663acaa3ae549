"""A convolution as cuDNN sees it: how image, filters and result lie, its windows, and what operators ask of plans.

An image of one dimension gets another one of one element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tazza.device.cuda.vendor import TF32
from tazza.engines.cudnn.graph import TYPES, Direction, Form, Problem, Windows
from tazza.engines.cudnn.plan import Algorithm, Wishes
from tazza.operator import OpView, Spec, Unsupported
from tazza.ops.nn.window import Window
from tazza.runtime.flags import flag
from tazza.tensor import DataType, TensorSpec

SEARCH = flag(
    "cudnn_exhaustive_search", False, "convolutions on CUDA devices take the fastest of all plans", kernels=True
)
STEADY = flag("cudnn_deterministic", True, "convolutions on CUDA devices give the same numbers each time", kernels=True)

MOST_DIMENSIONS = 3
"""Of images."""
_FFT, _WINOGRAD, _ANY_ORDER = (
    Algorithm("FFT", note="FFT"),
    Algorithm("Winograd", note="WINOGRAD"),
    Algorithm("sums in any order", note="NONDETERMINISTIC"),
)
ALGORITHMS: Mapping[Direction, Mapping[int, Algorithm]] = {
    Direction.FORWARD: {
        0: Algorithm("IMPLICIT_GEMM", 0),
        1: Algorithm("IMPLICIT_PRECOMP_GEMM", 1),
        2: Algorithm("GEMM", 2),
        **dict.fromkeys((4, 5), _FFT),
        **dict.fromkeys((6, 7), _WINOGRAD),
    },
    Direction.BACKWARD_FILTER: {
        1: Algorithm("1", 1),
        **dict.fromkeys((0, 3), _ANY_ORDER),
        **dict.fromkeys((2, 6), _FFT),
        **dict.fromkeys((4, 5), _WINOGRAD),
    },
    Direction.BACKWARD_DATA: {
        0: _ANY_ORDER,
        1: Algorithm("1", 1),
        **dict.fromkeys((2, 3), _FFT),
        **dict.fromkeys((4, 5), _WINOGRAD),
    },
}
"""Numbers that the library's older interface, and so nets of Caffe2, have for algorithms.

Its graphs have engines instead. The numbers of those that multiply windows are the same (seen with cuDNN 9.28); of the
others the library notes what they are, and does not tell the two forms of one apart.
"""
_FORCING = {
    Direction.FORWARD: ("force_algo_fwd", 0),
    Direction.BACKWARD_FILTER: ("force_algo_wgrad", 1),
    Direction.BACKWARD_DATA: ("force_algo_dgrad", 2),
}
"""The argument that forces an algorithm, and where its number stands in the list `force_algo`."""


def image_of(op: OpView, X: TensorSpec, W: TensorSpec, Y: Sequence[int], window: Window) -> Problem:
    """Return the convolution of an operator, whose blobs lie as its `order` says, in its forward direction."""
    last = op.order.upper() == "NHWC"
    flat = window.rank == 1
    windows = Windows(
        *(
            (*numbers, *((fill,) if flat else ()))
            for numbers, fill in ((window.head, 0), (window.tail, 0), (window.stride, 1), (window.dilation, 1))
        )
    )
    half = X.dtype is DataType.FLOAT16 and op.arguments.get("float16_compute", 0) == 1
    image, filters, result = (form_of(dims, last) for dims in (X.shape, W.shape, Y))
    compute = "DATA_HALF" if half else "DATA_FLOAT"
    return Problem(Direction.FORWARD, X.dtype, image, filters, result, windows, compute)


def form_of(dims: Sequence[int], last: bool) -> Form:
    """Return how a tensor lies, as one with the channels first, and of two dimensions of an image at least.

    >>> form_of((2, 5, 3), True)
    Form(dims=(2, 3, 5, 1), steps=(15, 1, 3, 3))
    """
    extents = [dims[0], dims[-1], *dims[1:-1]] if last else list(dims)
    extents += [1] if len(extents) == 3 else []
    order = [0, *range(2, len(extents)), 1] if last else list(range(len(extents)))
    steps, step = [0] * len(extents), 1
    for axis in reversed(order):
        steps[axis] = step
        step *= max(1, extents[axis])
    return Form(tuple(extents), tuple(steps))


def check_image(specs: Sequence[Spec | None], window: Window) -> None:
    """Refuse what nothing is convolved of."""
    kinds = {spec.dtype for spec in specs if isinstance(spec, TensorSpec)}
    if len(kinds) != 1 or not kinds <= TYPES.keys():
        told = ", ".join(sorted(kind.label for kind in kinds))
        raise Unsupported(f"it takes float32, float16 and bfloat16, all blobs of one type, not {told}")
    if min((*window.head, *window.tail), default=0) < 0:
        raise Unsupported(f"pads {window.head} before and {window.tail} behind the image cut something off")
    if window.rank > MOST_DIMENSIONS:
        raise Unsupported("images of more than three dimensions")


def wishes_of(op: OpView, direction: Direction) -> Wishes:
    """Return what an operator asks of the plan for a direction."""
    number = _forced(op, direction)
    if number >= 0 and number not in ALGORITHMS[direction]:
        raise Unsupported(f"{_FORCING[direction][0]} = {number} is no algorithm of the library")
    asked = bool(op.arguments.get("exhaustive_search", 0)) or bool(op.cudnn_exhaustive_search)
    steady = STEADY.value if op.deterministic is None else bool(op.deterministic)
    forced = ALGORITHMS[direction].get(number)
    return Wishes(op.ws_nbytes_limit, TF32.value, forced, SEARCH.value or asked, steady)


def _forced(op: OpView, direction: Direction) -> int:
    """Return the number of the algorithm that is forced, or -1."""
    name, place = _FORCING[direction]
    listed: list[int] = op.force_algo
    if not listed:
        return int(getattr(op, name))
    alone = [one for one, _ in _FORCING.values() if getattr(op, one) >= 0]
    if len(listed) != len(_FORCING) or alone:
        raise Unsupported(f"force_algo = {listed} has three numbers, and none of them alone beside it ({alone})")
    return listed[place]
