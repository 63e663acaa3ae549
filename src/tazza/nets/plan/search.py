"""Exhaustive search: every implementation and layout of an operator is timed, the fastest is taken.

It is asked for by the argument `exhaustive_search` of an operator, or for all by the flag of that name. All engines
take part that have variants of the operator to offer, unless it runs on one that it names, or that `prefer_engines`
put before the others. Results are kept on disk
under the processor, the engines, the number of threads, the operator and the specs of its blobs, so that a second
process does not search again.

An operator is judged with what its choice costs around it: a variant that wants its input in another layout pays for
that reorder. In the end the program of the fastest variants is taken only if its operators and reorders together beat
those of the program that was compiled without search: what is best for one operator may be bad for the graph.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias, TypeGuard, cast

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.errors import FileError, UnsupportedError
from tazza.nets.plan.compiler import Compilation, compile_region
from tazza.nets.plan.program import Program
from tazza.operator import (
    ENGINES,
    Candidate,
    Chosen,
    Kernel,
    LaidOut,
    Launch,
    Operands,
    OpView,
    Spec,
    choose_kernel,
    why_unavailable,
)
from tazza.operator.choice import VARIANTS, Choice, Variant, find_kernel, seen_by
from tazza.operator.reorder import bind_reorder
from tazza.operator.schema import gather_all, logical
from tazza.runtime.cache import Cache
from tazza.runtime.digest import digest_of
from tazza.runtime.flags import flag, kernel_flags
from tazza.runtime.fork import freed_in_child
from tazza.runtime.kept_table import KeptTable
from tazza.runtime.log import logger
from tazza.runtime.machine import best_s
from tazza.runtime.native_code import processor
from tazza.runtime.threads import thread_count
from tazza.tensor import Storage, Tensor, TensorSpec
from tazza.tensor.offer import Unsupported, answered

EXHAUSTIVE = flag(
    "exhaustive_search", False, "planned nets time every variant of operators that have some", kernels=True
)
KEPT = 1 << 14
"""Results that are kept, in a process and on disk."""
FLOAT_BYTES = 24
Totals: TypeAlias = Mapping[str, float]
"""A result: what each way took in s, with the reorder that it asks for."""
ROUNDS = 5
"""Runs of a variant; the fastest counts."""

SLOWER = "slower, as the search found"
SLOWER_AROUND = "slower with the reorders around it, as the search found"

_lock = freed_in_child(threading.Lock())


def compile_fastest(asked: Compilation) -> Program:
    """Compile a region, after a search where one is asked for; see `compile_region`.

    What is the fastest depends on how many images there are, so where these shall not matter nothing is searched.
    """
    plain = compile_region(asked)
    asks = any(_asks(step.op) for step in plain.steps if not step.op.batch_invariant)
    if not asked.context.place.is_host or not asks:
        return plain
    search = _Search(asked.context)
    found = compile_region(asked, search.choose)
    search.save()
    best = min((plain, found), key=search.seconds)
    if best is plain:
        _tell_times(plain, found)
    return best


def _tell_times(plain: Program, found: Program) -> None:
    """Let the program that was compiled without a search tell what the search timed, as the other one does."""
    searched = {step.key: step.choices for step in found.steps if step.choices}
    for step in plain.steps:
        times = {one.engine: one for one in searched.get(step.key, ()) if one.searched_ns is not None}
        asked = [
            replace(one, searched_ns=times.pop(one.engine).searched_ns) if one.engine in times else one
            for one in step.choices
        ]
        step.choices = (*(replace(one, reason=SLOWER_AROUND) for one in times.values()), *asked)


def _asks(op: OpView) -> bool:
    return EXHAUSTIVE.value or bool(op.arguments.get("exhaustive_search", 0))


@dataclass(frozen=True)
class _Way:
    """A kernel, and one of the ways in which it may run."""

    kernel: Kernel
    variant: Variant

    @property
    def name(self) -> str:
        """The same in another process."""
        return f"{self.kernel.engine}: {self.variant.name}"

    def chosen(self, choices: tuple[Choice, ...]) -> Chosen:
        """Return it as what was chosen."""
        answer = self.variant.answer
        return Chosen(self.kernel, answer.launch, dict(answer.layouts), choices)


class _Search:
    """Chooses the fastest variants and knows what launches take."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seconds: dict[int, float] = {}
        self._launches: list[Launch] = []  # keeps what `_seconds` counts by identity
        self._found: dict[str, Totals] = {}

    def choose(
        self,
        op: OpView,
        ranking: Sequence[Candidate],
        context: Context,
        inputs: Sequence[Spec],
        outputs: Sequence[Spec],
    ) -> Chosen:
        """Return the fastest way, or the kernel that would be chosen where there is no other."""
        chosen = choose_kernel(op, ranking, context, inputs, outputs)
        found = _ways(op, ranking, chosen, inputs, outputs) if _asks(op) else []
        if len(found) < 2:
            return chosen
        key = _key(op, found, inputs, outputs)
        ways = {way.name: way for way in found}
        totals = self._found[key] if key in self._found else stored().get(key)
        if totals is None or _fastest_of(totals) not in ways:
            totals = {name: self._total(op, way, inputs, outputs) for name, way in ways.items()}
        self._found[key] = totals
        best = ways[_fastest_of(totals)]
        return best.chosen(_told(chosen, found, best, totals))

    def save(self) -> None:
        """Add what was found to the results on disk; failing to is told, and costs the next process a search."""
        with _lock:
            everything = _latest({**_read(), **self._found})
            try:
                TABLE.write(everything)
            except FileError as error:
                logger.warning("results of the search are not kept: %s", error)
            _keep(stored(), everything)

    def seconds(self, program: Program) -> float:
        """Return what a program's searched operators and its reorders take together."""
        total = 0.0
        for step in program.steps:
            specs = [value.spec for value in (*step.inputs, *step.outputs)]
            if step.is_reorder or _asks(step.op):
                total += self._time(step.op, step.launch, specs)
        return total

    def _total(self, op: OpView, way: _Way, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> float:
        specs = self._in_layouts(op, way.chosen(()), inputs, outputs)
        total = self._time(op, way.variant.answer.launch, specs)
        first, wanted = inputs[0], specs[0]
        if isinstance(first, TensorSpec) and first.layout != wanted.layout:
            total += best_s(bind_reorder(_filled(first), _filled(wanted), self._context), ROUNDS)
        return total

    @staticmethod
    def _in_layouts(op: OpView, chosen: Chosen, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> list[TensorSpec]:
        read = zip(op.input_letters, cast("Sequence[TensorSpec]", inputs), strict=True)
        written = zip(op.output_letters, cast("Sequence[TensorSpec]", outputs), strict=True)
        return [
            *(replace(spec, layout=chosen.input_layout(letter, spec)) for letter, spec in read),
            *(replace(spec, layout=chosen.output_layout(letter)) for letter, spec in written),
        ]

    def _time(self, op: OpView, launch: Launch, specs: Sequence[TensorSpec]) -> float:
        known = self._seconds.get(id(launch))
        if known is not None:
            return known
        letters = gather_all(op, [_filled(spec) for spec in specs])
        scratch = self._context.scratch(launch.scratch_bytes) if launch.scratch_bytes else None
        call = launch.bind(Operands(letters, scratch, _no_generator, self._context))
        self._launches.append(launch)
        self._seconds[id(launch)] = best_s(call, ROUNDS)
        return self._seconds[id(launch)]


def _filled(spec: TensorSpec) -> Tensor:
    """Return a tensor of zeros."""
    tensor = Tensor.over(Storage(spec.place, holder="search"), 0, spec)
    tensor.reserve()
    assert tensor.storage.allocation is not None, "just reserved"
    tensor.storage.allocation.buffer[...] = 0
    return tensor


def _fastest_of(totals: Totals) -> str:
    return min(totals, key=totals.__getitem__)


def _no_generator() -> Any:
    raise UnsupportedError("operators that draw random numbers have no variants")


def _ways(
    op: OpView, ranking: Sequence[Candidate], chosen: Chosen, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> list[_Way]:
    """Return all ways to run an operator; those of the chosen engine alone, where that was asked for."""
    place, own, found = chosen.kernel.device, chosen.kernel.engine, list[_Way]()
    asked = any(one.engine == own and (one.wanted or one.preferred) for one in ranking)
    for engine in [own] if asked else [candidate.engine for candidate in ranking]:
        look = VARIANTS.get((op.type, place, engine)) if why_unavailable(op.type, place, engine) is None else None
        if look is not None:
            kernel = find_kernel(op.type, place, engine)
            variants = answered(partial(look, op, *seen_by(kernel, op, inputs, outputs)))
            found += [] if isinstance(variants, Unsupported) else [_Way(kernel, one) for one in variants]
    if all(way.kernel is not chosen.kernel for way in found):
        found.insert(0, _Way(chosen.kernel, Variant.only(LaidOut(chosen.launch, chosen.layouts))))
    return found


def _told(chosen: Chosen, found: Sequence[_Way], best: _Way, totals: Totals) -> tuple[Choice, ...]:
    """Return what became of each engine that was asked or timed, the best one last, with what its fastest way took."""
    told = {one.engine: one for one in chosen.choices}
    for engine in dict.fromkeys(way.kernel.engine for way in found):
        times = [totals[way.name] for way in found if way.kernel.engine == engine and way.name in totals]
        searched_ns = 1e9 * min(times) if times else None
        former = told.get(engine, Choice(engine, False, None))
        told[engine] = replace(former, reason=SLOWER, searched_ns=searched_ns, could=True)
    taken = replace(told.pop(best.kernel.engine), reason=None)
    return (*told.values(), taken)


def _judged(op: OpView, found: Sequence[_Way], inputs: Sequence[Spec]) -> list[Spec | None]:
    """Return the inputs as far as they matter: weights lie as a variant wants them, whatever they are now."""
    wanted = {letter for way in found for letter in way.variant.answer.layouts}
    data = op.input_letters[0]
    return [
        logical(spec) if letter in wanted and letter != data else spec
        for letter, spec in zip(op.input_letters, inputs, strict=True)
    ]


def _key(op: OpView, found: Sequence[_Way], inputs: Sequence[Spec], outputs: Sequence[Spec]) -> str:
    arguments = sorted((name, repr(value)) for name, value in op.arguments.items())
    engines = [(engine, ENGINES[engine].version()) for engine in dict.fromkeys(way.kernel.engine for way in found)]
    state = (processor(), engines, thread_count(), kernel_flags())
    parts = (*state, op.type, op.input_letters, arguments, _judged(op, found, inputs), outputs)
    return digest_of(repr(parts).encode()).hex()


TABLE = KeptTable("search.json", "results of searches")
RESULTS: Cache[str, Totals] = Cache("results of searches", KEPT)


@cache
def stored() -> Cache[str, Totals]:
    """Return the results that were on disk when the process first asked, and all since."""
    found = RESULTS.another()
    _keep(found, _read())
    return found


def _keep(results: Cache[str, Totals], more: Mapping[str, Totals]) -> None:
    for key, totals in more.items():
        results.put(key, totals, len(key) + sum(len(name) + FLOAT_BYTES for name in totals))


def _latest(results: Mapping[str, Totals]) -> dict[str, Totals]:
    """Return the last of them, as many as are kept; each search adds its own at the end."""
    return dict(list(results.items())[-KEPT:])


def _read() -> dict[str, Totals]:
    return {key: totals for key, totals in TABLE.read().items() if _is_totals(totals)}


def _is_totals(found: Any) -> TypeGuard[Totals]:
    """Whether that of a file, whose names are texts, is a result: times in seconds."""
    times = cast("dict[str, Any]", found).values() if isinstance(found, dict) else ()
    return bool(times) and all(isinstance(time, (int, float)) and time >= 0 for time in times)
