"""The decorator that all kernels of this engine share: guards first, so that a kernel only translates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TypeAlias

from tazza.device import Context
from tazza.engines.onednn.descriptor import accepts_dense
from tazza.engines.onednn.launch import ZeroLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.primitive import ROOM_BYTES, steadily
from tazza.operator import LaidOut, OpSchema, OpView, Spec, Unsupported, kernel_key, launcher
from tazza.operator.choice import EPILOGUES
from tazza.operator.in_place import may_overwrite
from tazza.operator.kernel import Answer, Offered
from tazza.runtime.memory import require_room
from tazza.tensor import ROW_MAJOR, Layout, Opaque, TensorSpec
from tazza.tensor.expression import Expression
from tazza.tensor.offer import Offer

Estimate: TypeAlias = Callable[[OpView, dict[str, TensorSpec]], "float | None"]
Translate: TypeAlias = Callable[[OpView, dict[str, TensorSpec]], Answer]


Accepts: TypeAlias = Callable[[str, Spec], bool]


def onednn(
    *schemas: OpSchema,
    empty: str = "refuse",
    accepts: Accepts = accepts_dense,
    batch_invariant: bool = False,
    estimate_ns: Estimate | None = None,
) -> Callable[[Translate], Translate]:
    """Register `translate(op, specs) -> Launch | LaidOut` as the kernel of schemas.

    `specs` maps letters of inputs and outputs to their specs; blobs of a variadic letter are `X0`, `X1` ...; letters of
    absent optional blobs are missing. Without being asked, the kernel

    - refuses where oneDNN has no implementation (`Unimplemented`) or a blob holds no tensor,
    - is shown the layouts of `accepts` only: the dense ones,
    - never sees specs with 0 elements: with `empty="zero"` the outputs are filled with 0 where only first extents are 0
      (sums over no images that go on from no others; outputs without elements need nothing), else another engine gets
      them.

    `batch_invariant` is said of what works on each element, or each image, by itself and in one way; see `Kernel`.
    `estimate_ns` says how long it takes, where other engines' offers are to be compared with it; None where they
    are not.
    """

    def decorate(translate: Translate) -> Translate:
        @wraps(translate)
        def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
            del context
            specs = name_specs(op, inputs, outputs)
            hollow = {letter: spec for letter, spec in specs.items() if spec.size == 0}
            if hollow:
                return _hollow(op, specs, empty, hollow)

            def make() -> Answer:
                require_room(ROOM_BYTES, "oneDNN")
                with steadily(op.batch_invariant):
                    return _checked(op, translate(op, specs), specs)

            expected_ns = None if estimate_ns is None else estimate_ns(op, specs)
            return make() if expected_ns is None else Offer(make, estimate_ns=expected_ns)

        for one in schemas:
            launcher(one, engine="onednn", accepts=accepts, batch_invariant=batch_invariant)(prepare)
            if "epilogue" in one.args:
                EPILOGUES.register(kernel_key(one.type, "onednn"), _takes, help="what post-ops can compute")
        return translate

    return decorate


def _takes(epilogue: Expression) -> bool:
    from tazza.engines.onednn.epilogue import translate_epilogue  # which stands on this module's floor

    try:
        translate_epilogue(epilogue)
    except Unimplemented:
        return False
    return True


def name_specs(op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> dict[str, TensorSpec]:
    """Return specs by letter, numbered where the letter is variadic; all are to be tensors of known shape."""
    named: dict[str, TensorSpec] = {}
    letters = (*op.input_letters, *op.output_letters)
    variadic = {one.name for one in (*op.schema.inputs, *op.schema.outputs) if one.variadic}
    count: dict[str, int] = {}
    for letter, spec in zip(letters, (*inputs, *outputs), strict=True):
        if not isinstance(spec, TensorSpec) or not spec.shape_known:
            raise Unsupported(f"{letter} is {spec}: not a tensor of known shape")
        place = count.get(letter, 0)
        count[letter] = place + 1
        named[f"{letter}{place}" if letter in variadic else letter] = spec
    return named


def _checked(op: OpView, answer: Answer, specs: dict[str, TensorSpec]) -> Answer:
    """Refuse an answer that would give an output which overwrites an input another layout than that input has.

    It has the layout in which the launch asks for it, and lies so before the launch runs.
    """
    layouts: Mapping[str, Layout] = answer.layouts if isinstance(answer, LaidOut) else {}
    for letter, name in zip(op.output_letters, op.definition.output, strict=True):
        layout, spec = layouts.get(letter, ROW_MAJOR), specs.get(letter)
        if name not in op.definition.input or spec is None or layout == spec.layout:
            continue
        if layouts.get(op.input_letters[list(op.definition.input).index(name)]) != layout:
            raise Unsupported(f"{letter} = {name!r} overwrites an input ({spec}), oneDNN would write it as {layout}")
    return answer


def _hollow(op: OpView, specs: dict[str, TensorSpec], empty: str, hollow: dict[str, TensorSpec]) -> Answer:
    opaque = [letter for letter, spec in specs.items() if isinstance(spec.layout, Opaque)]
    sums = not _goes_on(op, hollow) and all(0 not in spec.shape[1:] for spec in hollow.values())
    if empty == "zero" and not opaque and sums:
        return ZeroLaunch(tuple(op.output_letters))
    if all(letter in hollow for letter in op.output_letters):
        return ZeroLaunch(tuple(op.output_letters))  # there is nothing to write, whatever the operator
    words = ", ".join(f"{letter} is {spec}" for letter, spec in hollow.items())
    raise Unsupported(f"{words}: without elements")


def _goes_on(op: OpView, hollow: dict[str, TensorSpec]) -> bool:
    """Whether an output goes on from an input that it may overwrite, as sums over several batches do."""
    written = [n for n, letter in enumerate(op.output_letters) if letter not in hollow]
    return any(op.input_letters[n] not in hollow for output in written for n in may_overwrite(op, output))


def wished(spec: TensorSpec) -> bool:
    """Whether the spec of an output has a layout that is wished for: anything but row-major."""
    return spec.layout != ROW_MAJOR
