"""Nets as bytes: binary and text forms that are damaged, cut, spliced, or that only a program would write."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

from tazza.proto import NetDef
from tazza.proto.message import format_text, parse, parse_text, read_message
from tests.fuzz import feeds, net_acts, nets
from tests.fuzz.byte_mutation import damage, damage_message, damage_text
from tests.fuzz.case import Case

NETS = 400
"""Nets whose bytes are damaged."""


@cache
def _source(number: int) -> tuple[NetDef, bytes]:
    """Return one of the nets whose forms are damaged, and what it is fed."""
    net, fed = nets.drawn_net(Random(f"bytes of {number}"))
    return net, feeds.stored(fed)


def draw(seed: int) -> Case:
    """Draw the damaged form of a net."""
    source = Random(f"bytes {seed}")
    net, fed = _source(source.randrange(NETS))
    other, _ = _source(source.randrange(NETS))
    form = source.choice(("binary", "binary", "text"))
    if form == "text":
        data = damage_text(source, format_text(net).encode(), format_text(other).encode())
    else:
        how: Callable[[Random, bytes, bytes], bytes] = source.choice((damage, damage_message, damage_message))
        data = how(source, net.SerializeToString(), other.SerializeToString())
    return Case("bytes", seed, {"net": data, "feeds": fed}, (form, source.choice(nets.ACTS)))


def attempt(case: Case, folder: Path) -> None:
    """Parse the bytes; what comes out is a net like any other."""
    form, act = case.words
    data = case.parts["net"]
    if form == "text":
        path = folder / "net.pbtxt"
        path.write_bytes(data)
        net = (
            read_message(path, NetDef)
            if case.seed % 2
            else parse_text(NetDef, data.decode("utf-8", "replace"), "a fuzzed text")
        )
    else:
        net = parse(NetDef, data, "fuzzed bytes")
    net_acts.ACTS[act](net, feeds.read(case.parts["feeds"]), folder, Random(case.seed))
