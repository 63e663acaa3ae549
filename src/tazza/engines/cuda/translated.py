"""The decorator of kernels whose launch follows from the specs: guards first, so that a kernel only translates."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from tazza.codegen.block import Slot, Word, accepts_rows_but
from tazza.codegen.prepare import compiles
from tazza.engines.cuda import KIND
from tazza.operator import Launch, OpSchema, OpView, Unsupported
from tazza.tensor import DataType, TensorSpec

Specs: TypeAlias = dict[str, TensorSpec]
Translate: TypeAlias = Callable[[OpView, Specs], "Launch | Unsupported"]


def translated(
    *schemas: OpSchema, host: Collection[str] = (), floats: Collection[str] = ()
) -> Callable[[Translate], Translate]:
    """Register `translate(op, specs) -> Launch | Unsupported` as the kernel of schemas, as `compiles` does.

    `specs` are those of inputs and outputs by letter, row-major, without text; what is not there is missing. Letters
    of `host` may lie in any way: no kernel reads them. Those of `floats` are float32.
    """

    def decorate(translate: Translate) -> Translate:
        def checked(op: OpView, specs: Specs) -> Launch | Unsupported:
            for letter in specs.keys() & {*floats}:
                if specs[letter].dtype is not DataType.FLOAT:
                    return Unsupported(f"it is compiled for float32, {letter} is {specs[letter].dtype.label}")
            return translate(op, specs)

        checked.__module__ = translate.__module__  # by that name an index finds the file
        compiles(*schemas, engine=KIND, device=KIND, accepts=accepts_rows_but({*host}))(checked)
        return translate

    return decorate


def addresses(*letters: str) -> dict[str, Word]:
    """Return the words of a block that are the addresses of blobs, by the names of their letters."""
    return {letter: Slot(letter) for letter in letters}
