"""What a compiled region is: values with a home, and steps with launches. It holds no address and is shared.

A *value* is one tensor that steps write or read; names and versions are resolved already. Its home is one of

    blob     the blob of that name: inputs of the region, parameters, declared outputs, what other parts read
    derived  memory that all programs of a net share: a constant blob in the layout that a kernel reads (`copies.py`)
    arena    a place in the arena of each instance
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tazza.data_class import dataclass
from tazza.graph.memory import Arena
from tazza.operator import Cost, Launch, OpView
from tazza.operator.choice import Choice, Kernel
from tazza.tensor import Layout, TensorSpec


@dataclass(slots=True, eq=False)
class PlanValue:
    """One tensor; `owner` is the value whose memory it uses, from byte `offset` on.

    It is its own, unless it was written in place, or holds a part of the images of another value.
    """

    name: str
    spec: TensorSpec
    blob: str | None = None
    source: PlanValue | None = None
    owner: PlanValue | None = None
    offset: int = 0

    @property
    def root(self) -> PlanValue:
        """The value whose memory this one uses."""
        value = self
        while value.owner is not None:
            value = value.owner
        return value

    @property
    def start(self) -> int:
        """Where it begins within the memory of its root, in bytes."""
        return self.offset if self.owner is None else self.offset + self.owner.start

    @property
    def home(self) -> str:
        """`blob`, `derived` or `arena`."""
        root = self.root
        if root.blob is not None:
            return "blob"
        return "arena" if root.source is None else "derived"

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, padding included."""
        return self.spec.span_bytes


@dataclass(slots=True, eq=False)
class Step:
    """One launch on values; `key` tells random generators and states of operators apart.

    Where operators run for a part of the images at a time, `twin` is the step that does the same for the first part.
    """

    op: OpView
    launch: Launch
    engine: str
    inputs: tuple[PlanValue, ...]
    outputs: tuple[PlanValue, ...]
    kernel: Kernel | None
    key: str
    choices: tuple[Choice, ...] = ()
    cost: Cost | None = None
    twin: Step | None = None

    @property
    def is_reorder(self) -> bool:
        """Whether the plan itself added it, to bring a value into another layout."""
        return self.kernel is None


@dataclass(slots=True, eq=False, weakref_slot=True)
class Program:
    """A region compiled for one signature.

    `stored` says in which layout the program wants blobs that outlive it; `derived` are copies of constants, which are
    made anew when their source was written. `loops` are the slices of images: from which step on each of them begins,
    and, at the end, the step behind the last. `values_read` are the inputs whose values shapes were inferred from, as
    `value_key` gives them.
    """

    steps: list[Step]
    inputs: dict[str, PlanValue]
    outputs: dict[str, PlanValue]
    stored: Mapping[str, Layout]
    derived: list[PlanValue]
    loops: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    values_read: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    arena: Arena = field(default_factory=lambda: Arena((), 0, 0))
    offsets: dict[PlanValue, int] = field(default_factory=dict[PlanValue, int])
    scratch_offsets: dict[int, int] = field(default_factory=dict[int, int])
    _copied: dict[str, list[PlanValue]] | None = None

    @property
    def copied(self) -> dict[str, list[PlanValue]]:
        """The inputs that no step reads as they are, and the copies that it reads instead."""
        if self._copied is None:
            used = {one.root for step in self.steps for one in (*step.inputs, *step.outputs)}
            kept = {value for name, value in self.inputs.items() if name in self.values_read or name in self.outputs}
            self._copied = {
                name: [one for one in self.derived if one.source is not None and one.source.root is value]
                for name, value in self.inputs.items()
                if value not in used and value not in kept
            }
        return self._copied
