"""What engines may refuse, and what selective ones must take: declared case by case in `data/engines.json`.

Nothing is assumed: an engine that refuses a call which is not listed fails its test, as does one that takes what is
listed as refused; a selective engine takes exactly what is listed for it. After a change that was meant,
`make engines` writes the table anew, and the difference is read like any other.

What oneDNN answers by "unimplemented" hangs on the processor, so that it may be refused or not, listed or not.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from zlib import crc32

from tazza.operator import ENGINES, Operator
from tazza.tensor import ROW_MAJOR, Blob, Tensor

PATH = Path(__file__).parent / "data" / "engines.json"
BY_PROCESSOR = "unimplemented"
LONGEST = 160

Table = dict[str, dict[str, dict[str, str]]]
"""Engine -> operator type -> call -> the reason of a refusal, or nothing where it is taken."""

Counts = dict[str, tuple[int, int]]
"""For engines, how many calls they ran and refused."""


@dataclass
class Ledger:
    """The table as it is stored, what this run of the tests saw, and whether it writes that down."""

    declared: Table = field(default_factory=lambda: cast("Table", json.loads(PATH.read_text())))
    seen: dict[tuple[str, str, str], str] = field(default_factory=dict[tuple[str, str, str], str])
    ran: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[str] = field(default_factory=Counter[str])
    writes: bool = False

    def settle(self, operator: Operator, engine: str, reason: str | None) -> None:
        """Compare what an engine did, None: it ran, with what is declared.

        Raises:
            AssertionError: it is another thing.
        """
        type, call = operator.definition.type, call_of(operator)
        before = self.seen.setdefault((engine, type, call), "" if reason is None else reason)
        assert (before == "") == (reason is None), f"{engine} takes and refuses {type} {call}"
        self.ran[engine] += reason is None
        self.refused[engine] += reason is not None
        if self.writes or engine == "reference":
            assert reason is None or engine != "reference", f"the definition of {type} refuses {call}: {reason}"
            return
        listed = call in self.declared.get(engine, {}).get(type, {})
        if reason is None:
            assert listed or not ENGINES[engine].selective, f"{engine} takes {type} {call}, which is not declared"
            assert not listed or ENGINES[engine].selective or self._by_processor(engine, type, call), (
                f"{engine} takes {type} {call}, which is declared as refused"
            )
        else:
            wrong = listed if ENGINES[engine].selective else not listed
            assert not wrong or BY_PROCESSOR in reason, (
                f"{engine} refuses {type} {call} against what is declared: {reason}"
            )

    def _by_processor(self, engine: str, type: str, call: str) -> bool:
        return BY_PROCESSOR in self.declared[engine][type][call]

    def write(self) -> None:
        """Write the table anew for the calls that were seen; the others stay."""
        for (engine, type, call), reason in self.seen.items():
            calls = self.declared.setdefault(engine, {}).setdefault(type, {})
            if (not reason) == ENGINES[engine].selective and engine != "reference":
                calls[call] = reason
            else:
                calls.pop(call, None)
        kept = {
            engine: {type: dict(sorted(calls.items())) for type, calls in sorted(types.items()) if calls}
            for engine, types in sorted(self.declared.items())
        }
        PATH.write_text(json.dumps({engine: types for engine, types in kept.items() if types}, indent=1) + "\n")

    def counts(self) -> Counts:
        """Return for each engine how many calls of operators it computed, and how many it refused."""
        return {engine: (self.ran[engine], self.refused[engine]) for engine in self.ran | self.refused}

    def add(self, counts: Counts) -> None:
        """Count what another process saw as well."""
        for engine, (ran, refused) in counts.items():
            self.ran[engine] += ran
            self.refused[engine] += refused

    def summary(self) -> list[str]:
        """Return the counts in words, by engine."""
        return [
            f"{engine}: ran {ran}, refused {refused} with a reason"
            for engine, (ran, refused) in sorted(self.counts().items())
        ]


def call_of(operator: Operator) -> str:
    """Return a call in words: inputs as they lie, outputs that overwrite them, arguments, names of no engine."""
    names = list(operator.definition.input)
    places = [f"out{n} over in{names.index(o)}" for n, o in enumerate(operator.definition.output) if o in names]
    arguments = [f"{a.name}={_value(operator, a.name)}" for a in operator.definition.arg]
    # What is no engine is an argument: some operators of Caffe2 chose an algorithm of theirs by that name.
    asked = [f"engine={word}" for word in operator.definition.engine.split(",") if word.strip() not in {"", *ENGINES}]
    words = "; ".join([", ".join(map(_blob, operator.inputs)), *places, *arguments, *asked])
    return words if len(words) <= LONGEST else f"{words[:LONGEST]} ... {crc32(words.encode()):08x}"


def _blob(blob: Blob) -> str:
    found = blob.value
    if not isinstance(found, Tensor):
        return blob.type_name
    lies = "" if found.layout == ROW_MAJOR else " strided"
    meaning = "" if found.quantization is None else f" ({found.quantization})"
    return f"{found.dtype.label}{list(found.shape)}{lies}{meaning}"


def _value(operator: Operator, name: str) -> str:
    value = operator.op.arguments.get(name)
    return f"{value:g}" if isinstance(value, float) else str(value)


LEDGER = Ledger()
