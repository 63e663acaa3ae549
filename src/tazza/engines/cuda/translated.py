"""The decorator of kernels whose launch follows from the specs: guards first, so that a kernel only translates."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tazza.codegen.block import Slot, Word, accepts_rows_but
from tazza.codegen.prepare import compiles
from tazza.engines.cuda import KIND
from tazza.operator import OpSchema
from tazza.operator.in_place import overwritten
from tazza.operator.kernel import Offered, Prepare


def translated(
    *schemas: OpSchema, float32: bool | Collection[str] = False
) -> Callable[[Callable[..., Offered]], Prepare]:
    """Register a function of letters as the kernel of schemas on CUDA devices, as `compiles` does.

    Letters of the host may lie in any way, since no kernel reads them; so may what is overwritten, as it lies.
    """
    anyhow = {letter for one in schemas for letter, declared in one.inputs_by_letter.items() if declared.host}
    accepts = accepts_rows_but(anyhow.union(*map(overwritten, schemas)))
    return compiles(*schemas, engine=KIND, device=KIND, accepts=accepts, float32=float32)


def addresses(*letters: str) -> dict[str, Word]:
    """Return the words of a block that are the addresses of blobs, by the names of their letters."""
    return {letter: Slot(letter) for letter in letters}
