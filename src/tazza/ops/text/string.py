"""Parts of texts, and what they begin and end with.

StringPrefix, StringSuffix, StringStartsWith, StringEndsWith, StringEquals. A text is bytes, whatever they mean; texts
and results have one shape S.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import Array, Cost, Effects, OpSchema, OpView, arg, blob, family, forbidden, kernel, schema
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.dtype import numpy_dtype

NO_GRADIENT = forbidden("texts have no derivative")
STRINGS = blob("strings", DataType.STRING, "*S")


@dataclass(frozen=True, slots=True)
class Part:
    """Which bytes of a text are taken, by their number."""

    doc: str
    take: Callable[[bytes, int], bytes]
    example: str


@family(
    {
        "StringPrefix": Part(
            "parts = the first `length` bytes of each text, or all of it where it is shorter.",
            lambda text, length: text[:length],
            "[b'ra', b'b']",
        ),
        "StringSuffix": Part(
            "parts = the last `length` bytes of each text, or all of it where it is shorter.",
            lambda text, length: text[max(len(text) - length, 0) :],
            "[b'in', b'b']",
        ),
    }
)
def parts_of_texts(type: str, row: Part) -> OpSchema:
    """An operator that takes a part of each text."""
    made = schema(
        type,
        row.doc,
        inputs=[STRINGS],
        outputs=[blob("parts", DataType.STRING, "*S")],
        args=[arg("length", int, 3, minimum=0, doc="bytes")],
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
        >>> run("{type}", np.array(["rain", "b"], object), length=2).tolist()
        {row.example}
        """,
    )

    @made.cost
    def part_cost(op: OpView, strings: TensorSpec, parts: TensorSpec) -> Cost:
        return Cost(strings.size * op.length, strings.nbytes, parts.nbytes)

    @kernel(made)
    def take(op: OpView, strings: Array, parts: Array) -> None:
        parts[...] = _each(strings, lambda text: row.take(text, op.length), object)

    return made


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a text and an argument."""

    doc: str
    argument: str
    about: str
    ask: Callable[[bytes, bytes], bool]


@family(
    {
        "StringStartsWith": Question(
            "bools = whether a text begins with `prefix`.", "prefix", "what it may begin with", bytes.startswith
        ),
        "StringEndsWith": Question(
            "bools = whether a text ends with `suffix`.", "suffix", "what it may end with", bytes.endswith
        ),
        "StringEquals": Question("bools = whether a text is `text`.", "text", "what it may be", bytes.__eq__),
    }
)
def questions(type: str, row: Question) -> OpSchema:
    """An operator that asks each text."""
    made = schema(
        type,
        row.doc,
        inputs=[STRINGS],
        outputs=[blob("bools", DataType.BOOL, "*S")],
        args=[arg(row.argument, bytes, b"", doc=row.about)],
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
        >>> run("{type}", np.array(["rain", "b"], object), {row.argument}="b")
        array([False,  True])
        """,
    )

    @made.cost
    def questions_cost(op: OpView, strings: TensorSpec, bools: TensorSpec) -> Cost:
        return Cost(strings.size * (1 + len(op.arguments[row.argument])), strings.nbytes, bools.nbytes)

    @kernel(made)
    def ask(op: OpView, strings: Array, bools: Array) -> None:
        wanted = op.arguments[row.argument]
        bools[...] = _each(strings, lambda text: row.ask(text, wanted), bool)

    return made


def _each(texts: Array, act: Callable[[bytes], bytes | bool], dtype: type[bool | object]) -> Array:
    """Return what `act` gives for each text."""
    found = map(act, texts.ravel().tolist())
    flat: Array = np.fromiter(found, numpy_dtype(dtype), texts.size)
    return flat.reshape(texts.shape)
