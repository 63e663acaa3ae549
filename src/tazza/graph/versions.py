"""Which value of a blob an operator reads or writes: static single assignment over a list of operators.

Names may be written again; each write makes a new *version* of the blob. A blob that is read before it is written has
the version 0 from outside. What nets within an operator touch counts (`operator.touches`); a blob that they may leave
as it was is read as well as written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tazza.data_class import dataclass
from tazza.operator import touches
from tazza.proto import OperatorDef


@dataclass(frozen=True, slots=True)
class Versions:
    """One operator, with the version of every blob that it reads and writes."""

    op: OperatorDef
    read: dict[str, int]
    written: dict[str, int]


class VersionedOps:
    """Operators in order, as values: `ops`, the last version of each blob, and who reads and writes which version.

    >>> from tazza.operator import operator_def
    >>> ssa = VersionedOps([operator_def("Relu", ["x"], ["y"]), operator_def("Relu", ["y"], ["y"])])
    >>> ssa.last["y"], ssa.readers["y", 0]
    (1, [1])
    """

    def __init__(self, ops: Iterable[OperatorDef]) -> None:
        """Number all versions in one pass."""
        self.ops: list[Versions] = []
        self.last: dict[str, int] = {}
        self.readers: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        self.writers: dict[tuple[str, int], int] = {}
        for position, op in enumerate(ops):
            touched = touches(op)
            kept = [name for name in touched.writes if name not in touched.certain and name in self.last]
            unnamed = [name for name in dict.fromkeys((*touched.reads, *kept)) if name not in op.input]
            read = {name: self.last.setdefault(name, 0) for name in (*op.input, *unnamed)}
            for name in (*op.input, *unnamed):
                self.readers[name, read[name]].append(position)
            for name in touched.writes:
                self.last[name] = self.last[name] + 1 if name in self.last else 0
                self.writers[name, self.last[name]] = position
            self.ops.append(Versions(op, read, {name: self.last[name] for name in touched.writes}))

    @property
    def writers_of(self) -> set[str]:
        """The blobs that some operator writes."""
        return {name for name, _ in self.writers}

    def is_read(self, name: str) -> bool:
        """Whether any operator reads any version of a blob."""
        return any(blob == name and positions for (blob, _), positions in self.readers.items())
