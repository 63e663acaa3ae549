"""The decorator of kernels whose launch follows from the specs: guards first, so that a kernel only translates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import wraps
from typing import TypeAlias, cast

from tazza.codegen.block import Slot, Word, accepts_rows_but
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.operator import Launch, OpSchema, OpView, Spec, Unsupported, launcher
from tazza.tensor import DataType, TensorSpec

Specs: TypeAlias = dict[str, TensorSpec]
Translate: TypeAlias = Callable[[OpView, Specs], "Launch | Unsupported"]


def translated(
    *schemas: OpSchema, host: Collection[str] = (), floats: Collection[str] = ()
) -> Callable[[Translate], Translate]:
    """Register `translate(op, specs) -> Launch | Unsupported` as the kernel of schemas.

    `specs` are those of inputs and outputs by letter, row-major, without strings; what is not there is missing. Letters
    of `host` may lie in any way: no kernel reads them. Those of `floats` are float32.
    """

    def decorate(translate: Translate) -> Translate:
        @wraps(translate)
        def prepare(
            op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
        ) -> Launch | Unsupported:
            del context
            given = cast("Sequence[TensorSpec]", (*inputs, *outputs))
            specs = dict(zip((*op.input_letters, *op.output_letters), given, strict=True))
            for letter, spec in specs.items():
                if spec.dtype is DataType.STRING:
                    return Unsupported("strings do not lie on a device")
                if letter in floats and spec.dtype is not DataType.FLOAT:
                    return Unsupported(f"it is compiled for float32, {letter} is {spec.dtype.label}")
            return translate(op, specs)

        for one in schemas:
            launcher(one, engine=KIND, device=KIND, accepts=accepts_rows_but({*host}))(prepare)
        return translate

    return decorate


def addresses(*letters: str) -> dict[str, Word]:
    """Return the words of a block that are the addresses of blobs, by the names of their letters."""
    return {letter: Slot(letter) for letter in letters}
