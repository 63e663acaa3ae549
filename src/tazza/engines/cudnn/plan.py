"""Plans: which of cuDNN's engines runs a problem, and what is asked of it.

The library's heuristic lists engines, best first; what it falls back to comes last. Taken is the first that gives the
same numbers each time, unless that is not asked for, rounds no more than the types say, needs no compiler, which takes
seconds, and needs a workspace of at most so many bytes; or else, of those that would do, the one with the smallest
workspace. Where an algorithm is asked for, that one is taken, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from tazza.data_class import dataclass
from tazza.engines.cudnn._declarations import NUMBERS
from tazza.engines.cudnn.descriptor import AttributeValue, Descriptor, Maker, nested, one_of, whole
from tazza.engines.cudnn.graph import Problem, number_of, operation_graph
from tazza.errors import KernelError
from tazza.tensor import DataType

WORKSPACE_BYTES = 64 << 20
"""How large a workspace may be, where no argument says so; as in Caffe2."""
MODES = ("HEUR_MODE_A", "HEUR_MODE_FALLBACK")
_PREFIX = "CUDNN_NUMERICAL_NOTE_"
_NOTES = {number: name.removeprefix(_PREFIX) for name, number in NUMBERS.items() if name.startswith(_PREFIX)}
_ROUNDING = frozenset({"TENSOR_CORE", "DOWN_CONVERT_INPUTS"})
"""Notes of engines that make TF32 of float32."""
MOST_NOTES = 32


@dataclass(frozen=True, slots=True)
class Algorithm:
    """What tells an algorithm that the library's older interface had names for: an engine's number, or a note."""

    name: str
    engine: int | None = None
    note: str = ""

    def is_by(self, candidate: Candidate) -> bool:
        """Whether a candidate is it."""
        return candidate.number == self.engine if self.engine is not None else self.note in candidate.notes


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is asked of a plan.

    Attributes:
        limit: how many bytes of workspace it may need.
        tf32: whether float32 may be rounded to 10 bits behind the point before it is multiplied.
        forced: by which algorithm it must be computed; None for any.
        search: whether all are timed.
        steady: whether it must give the same numbers each time, where some engine does.
    """

    limit: int = WORKSPACE_BYTES
    tf32: bool = False
    forced: Algorithm | None = None
    search: bool = False
    steady: bool = True


class Candidate:
    """An engine as it would be used for a graph."""

    def __init__(self, maker: Maker, config: Descriptor) -> None:
        """Ask what it is."""
        self._maker, self.config = maker, config
        engine = maker.empty("ENGINE")
        config.get_into("ENGINECFG_ENGINE", [engine])
        self.number: int = engine.get("ENGINE_GLOBAL_INDEX", "INT64", 1)[0]
        notes = engine.get("ENGINE_NUMERICAL_NOTE", "NUMERICAL_NOTE", MOST_NOTES)
        self.notes = frozenset(_NOTES[note] for note in notes if note in _NOTES)
        behaviour = engine.get("ENGINE_BEHAVIOR_NOTE", "BEHAVIOR_NOTE", MOST_NOTES)
        self.compiles = NUMBERS["CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION"] in behaviour

    @cached_property
    def plan(self) -> Plan | None:
        """Its plan; None where the library cannot make one of it."""
        try:
            return Plan(self._maker, self)
        except KernelError:
            return None

    def faithful(self, problem: Problem, wishes: Wishes) -> bool:
        """Whether it rounds no more than the types of a problem say."""
        if problem.dtype is DataType.FLOAT and not wishes.tf32 and self.notes & _ROUNDING:
            return False
        return problem.compute != "DATA_FLOAT" or "REDUCED_PRECISION_REDUCTION" not in self.notes

    @property
    def steady(self) -> bool:
        """Whether it gives the same numbers each time."""
        return "NONDETERMINISTIC" not in self.notes


class Plan:
    """What the library runs: for one graph, by one engine."""

    def __init__(self, maker: Maker, candidate: Candidate) -> None:
        """Let the library make it.

        Raises:
            KernelError: it cannot.
        """
        self.engine, self.notes = candidate.number, candidate.notes
        device = maker.of_device("EXECUTION_PLAN")
        made = maker.make("EXECUTION_PLAN", EXECUTION_PLAN_ENGINE_CONFIG=nested(candidate.config), **device)
        self.descriptor = made
        self.workspace_bytes: int = made.get("EXECUTION_PLAN_WORKSPACE_SIZE", "INT64", 1)[0]

    def __str__(self) -> str:
        return f"engine {self.engine}{' in any order' if 'NONDETERMINISTIC' in self.notes else ''}"

    @property
    def text(self) -> str:
        """The plan as the library writes it down, for the same device and version."""
        return self.descriptor.get_text("EXECUTION_PLAN_JSON_REPRESENTATION")

    def pack(self, maker: Maker, addresses: dict[str, int], workspace: int | None) -> Descriptor:
        """Return what a run is given: the address of each letter, and that of the workspace."""
        return maker.make(
            "VARIANT_PACK",
            VARIANT_PACK_UNIQUE_IDS=whole(*map(number_of, addresses)),
            VARIANT_PACK_DATA_POINTERS=AttributeValue("VOID_PTR", tuple(addresses.values())),
            VARIANT_PACK_WORKSPACE=AttributeValue("VOID_PTR", (workspace,)),
        )


def candidates(maker: Maker, graph: Descriptor) -> Iterator[Candidate]:
    """Yield what the library would run a graph with, best first."""
    device = {} if maker.properties is None else maker.of_device("ENGINEHEUR")
    for mode in MODES:
        try:
            asked = maker.make(
                "ENGINEHEUR",
                ENGINEHEUR_OPERATION_GRAPH=nested(graph),
                ENGINEHEUR_MODE=one_of("HEUR_MODE", mode),
                **device,
            )
            count = asked.count("ENGINEHEUR_RESULTS", "BACKEND_DESCRIPTOR")
        except KernelError:  # it has nothing for this graph
            continue
        found = [maker.empty("ENGINECFG") for _ in range(count)]
        for config in found[: asked.get_into("ENGINEHEUR_RESULTS", found)]:
            yield Candidate(maker, config)


def by_number(maker: Maker, graph: Descriptor, number: int) -> Candidate:
    """Return the engine of a number, with the settings that it has by itself.

    Raises:
        KernelError: there is none that runs this graph.
    """
    device = {} if maker.properties is None else maker.of_device("ENGINE")
    engine = maker.make(
        "ENGINE", ENGINE_OPERATION_GRAPH=nested(graph), ENGINE_GLOBAL_INDEX=whole(number), **device
    )  # fmt: skip
    return Candidate(maker, maker.make("ENGINECFG", ENGINECFG_ENGINE=nested(engine)))


def able_candidates(maker: Maker, problem: Problem, wishes: Wishes) -> list[Candidate]:
    """Return what may run a problem, best first: those that give the same numbers each time, or else the others."""
    graph = operation_graph(maker, problem)
    found = [one for one in candidates(maker, graph) if one.faithful(problem, wishes)]
    if wishes.forced is not None:
        return [one for one in _forced(maker, graph, wishes.forced, found) if one.faithful(problem, wishes)]
    steady = [one for one in found if one.steady or not wishes.steady]
    ready = [one for one in steady if not one.compiles]
    return ready if ready else steady if steady else found


def _forced(maker: Maker, graph: Descriptor, wanted: Algorithm, found: Sequence[Candidate]) -> list[Candidate]:
    listed = [one for one in found if wanted.is_by(one)]
    if listed or wanted.engine is None:
        return listed
    try:
        return [by_number(maker, graph, wanted.engine)]
    except KernelError:
        return []


def first_fitting(found: Sequence[Candidate], limit: int) -> Plan | None:
    """Return the first plan with a workspace of at most so many bytes, or else the one with the smallest."""
    plans: list[Plan] = []
    for candidate in found:
        plan = candidate.plan
        if plan is not None and plan.workspace_bytes <= limit:
            return plan
        plans += [] if plan is None else [plan]
    return min(plans, key=lambda one: one.workspace_bytes, default=None)


def choose_plan(maker: Maker, problem: Problem, wishes: Wishes) -> Plan | None:
    """Return the plan to be taken, as the library ranks them, or None where it has none."""
    return first_fitting(able_candidates(maker, problem, wishes), wishes.limit)
