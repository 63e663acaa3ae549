"""Launches one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from tazza.device import Generator, current_context
from tazza.operator import Call, LaunchChain, Operands
from tazza.tensor import CPUPlace


@dataclass(frozen=True)
class Noted:
    """A launch whose call notes its name."""

    name: str
    scratch_bytes: int
    notes: list[str]
    capturable: bool = False

    @property
    def implementation(self) -> str:
        return self.name

    def bind(self, operands: Operands) -> Call:
        del operands
        return lambda: self.notes.append(self.name)


def test_chain() -> None:
    """Calls come in turn, scratch memory is that of the greediest, and names without letters are left out."""
    notes: list[str] = []
    chain = LaunchChain((Noted("b", 64, notes), Noted("", 256, notes), Noted("a", 128, notes)))
    assert chain.scratch_bytes == 256
    assert chain.implementation == "b + a"
    chain.bind(Operands({}, None, Generator, current_context(CPUPlace())))()
    assert notes == ["b", "", "a"]
