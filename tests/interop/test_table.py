"""Tables in few bits: each reader of rows gets its counterpart, and the numbers are those of the codes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NetError
from tazza.interop.predictor import SEATS, Predictor
from tazza.interop.table import FORMATS, with_tables_in
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.traced import at_most

Array = NDArray[Any]
READERS = {"SparseLengthsSum": [], "SparseLengthsMean": [], "SparseLengthsWeightedSum": ["w"]}


def net(type: str) -> NetDef:
    made = NetDef(name="bags", external_input=["table", "w", "i", "n"], external_output=["y"])
    made.op.append(operator_def(type, ["table", *READERS[type], "i", "n"], ["y"]))
    return made


def result(definition: NetDef, blobs: dict[str, Array]) -> Array:
    workspace = Workspace()
    for name, value in blobs.items():
        workspace.feed(name, value)
    workspace.run_net_once(definition)
    return workspace.fetch("y")


@pytest.mark.parametrize("type", READERS)
@pytest.mark.parametrize("bits", FORMATS)
def test_the_net_in_few_bits_is_the_net_over_what_they_mean(type: str, bits: int) -> None:
    random = np.random.default_rng(bits)
    table = random.standard_normal((9, 12)).astype(np.float32)
    others: dict[str, Array] = {"i": np.array([8, 0, 3, 3, 1]), "n": np.array([2, 0, 3], np.int32)}
    others["w"] = random.random(5).astype(np.float32)
    narrow, tables = with_tables_in(bits, net(type), {"table": table})
    assert list(narrow.external_input) == [f"table_{bits}bit", "w", "i", "n"]
    means = FORMATS[bits].decode(tables[f"table_{bits}bit"])
    np.testing.assert_allclose(
        result(narrow, others | tables), result(net(type), others | {"table": means}), rtol=1e-5, atol=1e-6
    )


def test_what_it_refuses() -> None:
    with pytest.raises(ArgumentError, match="3 bits"):
        with_tables_in(3, net("SparseLengthsSum"), {})
    read = NetDef(name="read")
    read.op.append(operator_def("Gather", ["table", "i"], ["y"]))
    with pytest.raises(NetError, match="Gather reads the table 'table', not sums of its rows"):
        with_tables_in(8, read, {"table": np.zeros((2, 4), np.float32)})


@pytest.mark.slow
@pytest.mark.parametrize("bits", [32, *FORMATS])
def test_the_seats_of_a_predictor_share_tables(bits: int) -> None:
    """Four threads run one predictor at a time, each in a seat of its own: nobody has a table of its own."""
    random = np.random.default_rng(bits)
    table = random.standard_normal((100_000, 32), np.float32)
    definition, tables = (net("SparseLengthsSum"), {"table": table})
    if bits in FORMATS:
        definition, tables = with_tables_in(bits, definition, tables)
    name, value = next(iter(tables.items()))
    indices, lengths = random.integers(0, 100_000, 120), np.full(40, 3, np.int32)
    wanted = result(definition, {name: value, "i": indices, "n": lengths})

    def run(workspace: Workspace) -> Iterator[Array]:
        workspace.feed(name, value)
        together = Barrier(4)
        with Predictor(definition, workspace, inputs=["i", "n"]) as predictor, ThreadPoolExecutor(4) as threads:

            def once(_: int) -> Array:
                together.wait(60)
                return predictor.run(i=indices, n=lengths)["y"]

            yield from threads.map(once, range(4))

    with SEATS.override(4):
        for limit in (np.inf, 1.25 * value.nbytes):  # at first modules are loaded; what is fed is the one table
            with at_most(limit):
                for found in run(Workspace()):
                    np.testing.assert_allclose(found, wanted, rtol=1e-5)
