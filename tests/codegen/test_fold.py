"""The sums of many vectors, folded into the lanes of one."""

from __future__ import annotations

from tazza.codegen.fold import fold_lanes
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector


def test_every_vector_ends_up_in_its_lane() -> None:
    """Follow the shuffles by hand: each lane must hold all lanes of one vector, and no other."""
    for count in (2, 4, 8, 16):
        lines = Lines()
        v = Vector(lines, count)
        held = {f"%in{i}": [frozenset({(i, lane)}) for lane in range(count)] for i in range(count)}
        result = fold_lanes(v, [Term(lines, v.type, name) for name in held])
        for line in lines.lines:
            name, text = (part.strip() for part in line.split("=", 1))
            if text.startswith("shufflevector"):
                a, b, indices = _shuffle(text)
                both = held[a] + held[b]
                held[name] = [both[i] for i in indices]
            else:
                a, b = text.replace(",", "").split()[-2:]
                assert all(not (one & other) for one, other in zip(held[a], held[b], strict=True))
                held[name] = [one | other for one, other in zip(held[a], held[b], strict=True)]
        assert held[result.text] == [frozenset((i, lane) for lane in range(count)) for i in range(count)]


def _shuffle(text: str) -> tuple[str, str, list[int]]:
    a, b = (word.strip(",") for word in text.split() if word.startswith("%"))
    inside = text[text.rindex("<") + 1 : text.rindex(">")]
    return a, b, [int(word.split()[1]) for word in inside.split(",")]
