"""Which kernel runs an operator: the engines of its ranking are asked in turn, each says what it would do.

The rule is that of `tensor.offer`. An offer becomes a launch only when it is taken: until then nothing is compiled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeAlias, cast

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.errors import UnsupportedError
from tazza.operator.engine import ENGINES, Candidate, algorithms, asked_engines, rank_engines, why_unavailable
from tazza.operator.images import Images, ImageWise, may_take_all
from tazza.operator.index import load_kernel
from tazza.operator.kernel import Answer, Kernel, KernelKey, LaidOut, Launch, kernel_for, taken
from tazza.operator.native import native_kernel
from tazza.operator.schema import Spec, logical
from tazza.operator.view import OpView
from tazza.registry import Registry
from tazza.tensor import ROW_MAJOR, Layout, Opaque, TensorSpec
from tazza.tensor.expression import Expression
from tazza.tensor.offer import Asking, Offer, Unsupported, accepted, answered, price_ns
from tazza.tensor.place import CPU_KIND


@dataclass(frozen=True, slots=True)
class Choice:
    """What became of one engine when an operator was prepared: taken when `reason` is None.

    `estimate_ns` is how long it would take, where it said so; `searched_ns` how long its fastest way took, where an
    exhaustive search timed it, in this process or before. `least_ns` is what any kernel needs, for those that say
    nothing (`operator.estimate`). `could` is said of those that offered to run it and were not taken; `nbytes` is what
    it would hold, or holds.

    >>> print(Choice("native", False, None, 2500.0, 2310.0))
    native: taken, about 2.5 us, timed 2.31 us
    >>> print(Choice("gemm", False, "slower", least_ns=2000.0))
    gemm: slower, at least 2 us
    """

    engine: str
    wanted: bool
    reason: str | None
    estimate_ns: float | None = None
    searched_ns: float | None = None
    could: bool = False
    least_ns: float | None = None
    nbytes: int = 0

    @property
    def offered(self) -> bool:
        """Whether it offered to run the operator."""
        return self.could or self.reason is None

    @property
    def price(self) -> float:
        """What its offer was compared by."""
        return price_ns(self.estimate_ns, self.nbytes)

    def __str__(self) -> str:
        told = f"{self.engine}: {'taken' if self.reason is None else self.reason}"
        estimate = "" if self.estimate_ns is None else f"about {self.estimate_ns / 1000:.3g} us"
        if estimate and estimate not in told:  # the reason of an offer that was compared has it already
            told += f", {estimate}"
        if self.nbytes and self.reason is None:
            told += f", holds {self.nbytes / 2**20:.3g} MiB"
        if self.estimate_ns is None and self.least_ns is not None:
            told += f", at least {self.least_ns / 1000:.3g} us"
        return told if self.searched_ns is None else f"{told}, timed {self.searched_ns / 1000:.3g} us"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A kernel with its launch, the layouts it asked for by letter, and what became of each engine."""

    kernel: Kernel
    launch: Launch
    layouts: Mapping[str, Layout]
    choices: tuple[Choice, ...] = field(compare=False)

    def input_layout(self, letter: str, spec: TensorSpec) -> Layout:
        """Return the layout in which the launch reads an input that lies as `spec` says."""
        found = self.layouts.get(letter)
        if found is not None:
            return found
        shown = shown_spec(self.kernel, letter, spec)
        return shown.layout if isinstance(shown, TensorSpec) else ROW_MAJOR

    def output_layout(self, letter: str) -> Layout:
        """Return the layout in which the launch writes an output."""
        return self.layouts.get(letter, ROW_MAJOR)


@dataclass(frozen=True)
class Variant:
    """One way in which a kernel may run; `name` tells the same way in another process, for the same specs."""

    name: str
    answer: LaidOut

    @classmethod
    def only(cls, answer: LaidOut) -> Variant:
        """Return the one way of a kernel that has no choice."""
        return cls("its only way", answer)


VARIANTS: Registry[KernelKey, Callable[[OpView, Sequence[Spec], Sequence[Spec]], list[Variant]]] = Registry(
    "variants of kernel (operator, device, engine)", loader=load_kernel
)
"""What else a kernel could answer, for who searches the fastest; filled by engines beside their kernels."""


EPILOGUES: Registry[KernelKey, Callable[[Expression], bool]] = Registry(
    "judge of epilogues of kernel (operator, device, engine)", loader=load_kernel
)
"""Whether a kernel of a fused operator takes an epilogue, for who thinks of fusing; filled by engines as well."""


def takes_epilogue(type: str, epilogue: Expression, device: str) -> bool:
    """Whether some engine that is available here computes a fused operator with this epilogue on a kind of device."""
    for candidate in rank_engines(type, device, ""):
        if why_unavailable(type, device, candidate.engine) is None:
            judge = EPILOGUES.get((type, device, candidate.engine))
            if judge is not None and judge(epilogue):
                return True
    return False


def keeps_engines(op: OpView, type: str, device: str) -> bool:
    """Whether the engines that `op` asks for, and that have a kernel of it, have one of what would replace it."""

    def has(operator: str, word: str) -> bool:
        return any(why_unavailable(operator, device, name) is None for name in algorithms(word, ENGINES))

    return not any(has(op.type, word) and not has(type, word) for word in asked_engines(op.definition.engine))


MADE: Registry[KernelKey, Callable[[OpView, Sequence[Spec | None]], bool]] = Registry(
    "judge of operators that rewriting makes (operator, device, engine)", loader=load_kernel
)
"""Whether a kernel gains by an operator that stands for several, as far as the specs of its inputs are known."""


def takes_operator(op: OpView, inputs: Sequence[Spec | None], device: str) -> bool:
    """Whether some engine that is available here gains by an operator that would stand for several others.

    Specs of inputs are None where they are not known.
    """
    for candidate in rank_engines(op.type, device, ""):
        if why_unavailable(op.type, device, candidate.engine) is None:
            judge = MADE.get((op.type, device, candidate.engine))
            if judge is not None and judge(op, inputs):
                return True
    return False


def shown_spec(kernel: Kernel, letter: str, spec: Spec) -> Spec:
    """Return how a kernel gets to see an input: as it lies if it can, else as near to that as it can."""
    if kernel.accepts(letter, spec):
        return spec
    nearest = spec.layout.nearest if isinstance(spec, TensorSpec) and isinstance(spec.layout, Opaque) else None
    if nearest is not None:
        near = replace(cast("TensorSpec", spec), layout=nearest)
        if kernel.accepts(letter, near):
            return near
    return cast("Spec", logical(spec))


def _wishes(op: OpView, inputs: Sequence[Spec], shown: Sequence[Spec], outputs: Sequence[Spec]) -> Sequence[Spec]:
    """Return the specs of outputs for a kernel.

    An output that overwrites an input is asked for as the input lies; where the kernel does not know that form, and is
    shown another, that is what the output shall have.
    """
    widened = {
        name: seen
        for name, lies, seen in zip(op.definition.input, inputs, shown, strict=True)
        if isinstance(lies, TensorSpec) and isinstance(lies.layout, Opaque) and lies != seen
    }
    if not widened:
        return outputs
    wishes: list[Spec] = []
    for name, spec in zip(op.definition.output, outputs, strict=True):
        source = widened.get(name)
        if isinstance(spec, TensorSpec) and isinstance(source, TensorSpec) and source.dims == spec.dims:
            wishes.append(replace(spec, layout=source.layout))
        else:
            wishes.append(spec)
    return wishes


def seen_by(
    kernel: Kernel, op: OpView, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> tuple[Sequence[Spec], Sequence[Spec]]:
    """Return inputs and outputs as a kernel gets to see them: how they lie, as far as it knows that form."""
    shown = [shown_spec(kernel, letter, spec) for letter, spec in zip(op.input_letters, inputs, strict=True)]
    return shown, _wishes(op, inputs, shown, outputs)


def find_kernel(type: str, device: str, engine: str) -> Kernel:
    """Return the kernel of an engine that `why_unavailable` said is there."""
    found = kernel_for(type, device, engine)
    if found is None:
        found = native_kernel(type, engine)
    assert found is not None, "why_unavailable said that there is one"
    return found


_Make: TypeAlias = Callable[[], Answer]


def _ask(
    kernel: Kernel, op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Offer[_Make] | Unsupported:
    """Return what a kernel answers to specs as they lie."""
    assert kernel.prepare is not None, "host kernels do not share an operator type with others"
    reshaped = op.schema.reshaped(op, inputs)
    if reshaped and kernel.function is None:  # those on arrays look at them in the other shape
        return Unsupported(f"{', '.join(reshaped)} with another shape than the output")
    answer = answered(partial(kernel.prepare, op, context, *seen_by(kernel, op, inputs, outputs)))
    return answer if isinstance(answer, (Offer, Unsupported)) else Offer(lambda: answer)


def _ask_invariant(
    kernel: Kernel,
    op: OpView,
    context: Context,
    images: Images,
    specs: tuple[Sequence[Spec], Sequence[Spec]],
) -> Offer[_Make] | Unsupported:
    """Return what a kernel answers for one image, to be run for each, or for all where that gives the same bits."""
    plain = images.uncut(op, specs[0])
    one = images.some(1, op, specs, plain)
    offer = _ask(kernel, op, context, *one)
    if isinstance(offer, Unsupported):
        return offer
    estimate_ns = None if offer.estimate_ns is None else offer.estimate_ns * images.count
    whole = images.some(images.count, op, specs, plain) if images.count > 1 and may_take_all(kernel, op) else None

    def make() -> Answer:
        launch, wanted = _with_layouts(accepted(offer.run()), plain)
        try:
            layouts = images.layouts(op, wanted, one)
        except UnsupportedError as error:
            raise Unsupported(f"batch_invariant: {error.message}") from None
        if images.count == 1:
            return LaidOut(launch, layouts)
        found = None if whole is None else answered(partial(_taken_of, kernel, op, context, whole))
        if found is None or isinstance(found, Unsupported) or _with_layouts(found, plain)[1] != layouts:
            return LaidOut(ImageWise(launch, images.count, images.letters | images.outputs), layouts)
        return LaidOut(_with_layouts(found, plain)[0], layouts)

    # What it holds counts once for each image: who is taken for one of them is taken for many.
    return replace(offer, run=make, estimate_ns=estimate_ns, nbytes=offer.nbytes * images.count)


def _taken_of(kernel: Kernel, op: OpView, context: Context, specs: tuple[Sequence[Spec], Sequence[Spec]]) -> Answer:
    return taken(_ask(kernel, op, context, *specs))


def _with_layouts(answer: Launch | LaidOut, plain: Collection[str]) -> tuple[Launch, dict[str, Layout]]:
    """Return a launch, and the layouts that it asks for, where inputs of `plain` letters are to be row-major."""
    given = dict.fromkeys(plain, cast("Layout", ROW_MAJOR))
    return (answer.launch, given | dict(answer.layouts)) if isinstance(answer, LaidOut) else (answer, given)


def _offer_of(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec], candidate: Candidate
) -> Offer[_Make] | Unsupported:
    """Return what an engine answers."""
    reason = why_unavailable(op.type, context.place.kind, candidate.engine)
    if reason is not None:
        return Unsupported(reason)
    kernel = find_kernel(op.type, context.place.kind, candidate.engine)
    if op.batch_invariant:
        images = Images.of(op, inputs, outputs)
        if images is not None:
            return _ask_invariant(kernel, op, context, images, (inputs, outputs))
        if op.schema.formulas is not None and not may_take_all(kernel, op):
            return Unsupported("it does not declare that its numbers are the same in any batch (batch_invariant)")
    return _ask(kernel, op, context, inputs, outputs)


def ask_engines(
    op: OpView,
    ranking: Sequence[Candidate],
    context: Context,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
) -> Asking[Candidate, _Make]:
    """Return who offers to run an operator, best first; the arguments are those of `choose_kernel`."""
    ask = partial(_offer_of, op, context, inputs, outputs)
    return Asking(deque(ranking), ask, lambda candidate: candidate.wish)


def choose_kernel(
    op: OpView,
    ranking: Sequence[Candidate],
    context: Context,
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
) -> Chosen:
    """Ask the engines of `ranking`, and return the best offer that holds.

    Args:
        op: the operator.
        ranking: engines, best first.
        context: where it will run.
        inputs: specs with the layouts in which the inputs lie.
        outputs: specs with the layouts that are wished for.

    Raises:
        UnsupportedError: all refuse; the hint has their reasons.
    """
    asking = ask_engines(op, ranking, context, inputs, outputs)
    while (found := asking.best()) is not None:
        candidate, offer = found
        answer = answered(offer.run)
        if isinstance(answer, Unsupported):
            asking.refusals.append((candidate, answer.reason))
            continue
        kernel = find_kernel(op.type, context.place.kind, candidate.engine)
        own = Choice(candidate.engine, candidate.wanted, None, offer.estimate_ns, nbytes=offer.nbytes)
        choices = _told(ranking, asking, own)
        if isinstance(answer, LaidOut):
            return Chosen(kernel, answer.launch, dict(answer.layouts), choices)
        return Chosen(kernel, answer, {}, choices)
    reasons = told_once((candidate.engine, reason) for candidate, reason in asking.refusals)
    raise UnsupportedError(f"no engine takes {op.type} with {', '.join(map(str, inputs))}", hint=reasons)


def _told(ranking: Sequence[Candidate], asking: Asking[Candidate, _Make], chosen: Choice) -> tuple[Choice, ...]:
    """Return what became of each engine that was asked, by its rank, the one that is taken last."""
    told = {one.engine: Choice(one.engine, one.wanted, reason) for one, reason in asking.refusals}
    for one, offer in asking.offers:
        reason = ", ".join(filter(None, ("could", str(offer))))
        told[one.engine] = Choice(one.engine, one.wanted, reason, offer.estimate_ns, could=True, nbytes=offer.nbytes)
    return (*(told[one.engine] for one in ranking if one.engine in told), chosen)


def why_passed_over(word: str, choices: Sequence[Choice]) -> str:
    """Return the reasons of the engines that a word asks for; empty where one of them was taken, or none was asked.

    >>> lacks = [Choice(engine, True, "it has no Add kernel for cpu") for engine in ("native", "native/winograd")]
    >>> why_passed_over("native", lacks)
    'it has no Add kernel for cpu'
    """
    asked = algorithms(word, ENGINES)
    reasons = dict.fromkeys(one.reason for one in choices if one.engine in asked)
    return "" if None in reasons else "; ".join(map(str, reasons))


def told_once(reasons: Iterable[tuple[str, str | None]]) -> str:
    """Return the reasons of engines as text, each once.

    >>> told_once([("cublas", "no driver"), ("cuda", "no driver"), ("reference", "no kernel")])
    'cublas, cuda: no driver; reference: no kernel'
    """
    engines: dict[str | None, list[str]] = {}
    for engine, reason in reasons:
        engines.setdefault(reason, []).append(engine)
    return "; ".join(f"{', '.join(dict.fromkeys(found))}: {reason}" for reason, found in engines.items())


def lacking_hint(type: str, device: str, passed: Sequence[Choice]) -> str:
    """Return what to say of an operator that no engine computes on a kind of device: why, and what helps.

    >>> print(lacking_hint("Relu", "cuda", [Choice("cuda", False, "no driver"), Choice("cudnn", False, "no driver")]))
    it runs on the CPU: name no device, or load its net with device="cpu"; cuda, cudnn: no driver
    """
    reasons = told_once((choice.engine, choice.reason) for choice in passed)
    told = reasons if reasons else f"no engine is there for {device}"
    on_cpu = device != CPU_KIND and any(
        why_unavailable(type, CPU_KIND, candidate.engine) is None for candidate in rank_engines(type, CPU_KIND, "")
    )
    return f'it runs on the CPU: name no device, or load its net with device="cpu"; {told}' if on_cpu else told
