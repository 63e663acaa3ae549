"""Write `docs/operators.md`: every operator with its gradient, element types, recorded runs and engines.

    python -m tools.write_operators

It is the index of the pages of families that `tools.write_operator_pages` writes.

Element types are those of `tools.operator_types`: what Caffe2 took by its recorded column, what tazza takes by its
schemas.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from tazza.operator import SCHEMAS, OpSchema
from tazza.operator.description import engines_of, family_of
from tazza.operator.gradient import GradientKind, GradientRule, NoGradient
from tests.golden import operators, recorded_in_company, recordings
from tools.operator_types import REFUSED, Entry, entries, recorded
from tools.record_types import NAMES
from tools.write_operator_pages import page_of

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operators.md"
HEAD = """# Operators

Written by `make index` from the schemas, the kernels and the recorded runs of Caffe2; nobody edits it. Behind each
operator is the page of its family: shapes, arguments, errors, gradient, effects, engines, and an example that was run.
Where a shape is empty there, it follows from a rule that the text states. `tazza ops` tells the same.

*gradient*: yes, or the backward pass ends there quietly, asking is forbidden, or it is missing (not written yet).
*types*: which element types the letters before the colon take, several of them all of one type; a letter that stands
alone beside them takes these while the others keep theirs. Arguments that name a type (`dtype`, `to`) stand there too.
*runs*: how many runs of Caffe2 are recorded in `tests/data/golden`; behind a plus in how many nets and sequences of
runs the operator stands.
"""
GAPS = """
## Where the element types differ

Caffe2's column is recorded by feeding each element type to the genuine one (`tests/data/types.json`,
`tools/record_types.py`), tazza's follows from the schemas, and tests compare the two, and the values. Each row names
what was fed, what either gives (the types of the outputs, or that it refuses), and why.

| operator | fed | as | Caffe2 | tazza | reason |
|---|---|---|---|---|---|
"""


def main() -> None:
    """Write the page."""
    PAGE.write_text(text())


def text() -> str:
    """Return the page."""
    rows = "\n".join(row(SCHEMAS[type]) for type in sorted(SCHEMAS.keys()))
    table = f"\n| operator | family | gradient | types | runs | engines |\n|---|---|---|---|---|---|\n{rows}\n"
    return HEAD + counts() + table + GAPS + "\n".join(gaps()) + "\n"


def counts() -> str:
    """Return how many there are of what."""
    schemas = [SCHEMAS[type] for type in SCHEMAS]
    runs = sum(runs_of(type) for type in operators())
    told = Counter(gradient_of(schema) for schema in schemas)
    questions = [one for type in sorted(recorded()) for one in entries(type)]
    taken = sum(one.caffe2 != REFUSED and one.caffe2 == one.tazza for one in questions)
    kernels = Counter(engine for type in SCHEMAS for engine in names_of_engines(type))
    lines = [
        ("operators", len(schemas)),
        *((f"gradient: {kind}", told[kind]) for kind in ("yes", *(kind.value for kind in GradientKind))),
        ("recorded runs of Caffe2", runs),
        ("operators with recorded runs", len({*operators(), *recorded_in_company()} & set(SCHEMAS.keys()))),
        ("questions about element types", len(questions)),
        ("of these taken by both, with outputs of the same types", taken),
        *((f"kernels of {engine}", count) for engine, count in sorted(kernels.items())),
    ]
    body = "\n".join(f"| {what} | {count} |" for what, count in lines)
    return f"\n| | |\n|---|---|\n{body}\n"


def row(schema: OpSchema) -> str:
    """Return the line of an operator."""
    family = family_of(schema)
    page = page_of(family).relative_to(PAGE.parent).as_posix()
    runs, among = runs_of(schema.type), recorded_in_company()[schema.type]
    cells = (
        f"[{schema.type}]({page}#{schema.type.lower()})",
        f"[{family}]({page})",
        gradient_of(schema),
        types_of(schema.type),
        f"{runs} + {among}" if among else str(runs),
        " ".join(names_of_engines(schema.type)),
    )
    return f"| {' | '.join(cells)} |"


def gradient_of(schema: OpSchema) -> str:
    """Return whether an operator has a gradient, or of which kind its absence is."""
    rule = schema.gradient_rule
    if isinstance(rule, GradientRule):
        return "yes"
    assert isinstance(rule, NoGradient)
    return rule.kind.value


def runs_of(type: str) -> int:
    """Return how many runs of an operator are recorded."""
    return sum(1 for _ in recordings(type)) if type in operators() else 0


def names_of_engines(type: str) -> list[str]:
    """Return the engines that have a kernel of an operator."""
    return [one.name for one in engines_of(type)]


def types_of(type: str) -> str:
    """Return the element types that tazza takes for the letters of an operator."""
    if type not in recorded():
        return ""
    taken: dict[str, set[str]] = defaultdict(set)
    for one in entries(type):
        if one.tazza != REFUSED:
            taken[one.letters].add(one.dtype)
    told = {letters: names for letters, names in taken.items() if not _said_by_others(letters, taken)}
    return "; ".join(f"{letters}: {listed(names)}" for letters, names in told.items())


def _said_by_others(letters: str, taken: Mapping[str, set[str]]) -> bool:
    """Whether more letters together take all that these do."""
    own = set(letters.split())
    return any(own < set(others.split()) and taken[letters] <= names for others, names in taken.items())


def listed(names: Iterable[str]) -> str:
    """Return names of element types in their order; all of them are `any`.

    >>> listed({"int32", "float32"})
    'float32 int32'
    """
    found = [name for name in NAMES if name in set(names)]
    return "any" if len(found) == len(NAMES) else " ".join(found)


def gaps() -> list[str]:
    """Return a line for each gap between the two columns."""
    found: dict[tuple[str, ...], list[str]] = {}
    for type in sorted(recorded()):
        for one in entries(type):
            if one.tazza != one.caffe2:
                found.setdefault(gap(one), []).append(one.dtype)
    return [
        f"| {type} | {letters} | {listed(names)} | {caffe2} | {tazza} | {reason} |"
        for (type, letters, caffe2, tazza, reason), names in found.items()
    ]


def gap(entry: Entry) -> tuple[str, ...]:
    """Return operator, letters, what either gives, and the reason."""
    given, reason = (entry.caffe2, entry.tazza), entry.reason()
    return (entry.recording.definition.type, entry.letters, *given, "" if reason is None else reason)


if __name__ == "__main__":
    main()
