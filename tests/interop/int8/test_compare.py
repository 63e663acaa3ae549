"""What layers lose: against sums by hand, in tables and pictures."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.interop.int8 import Comparison, Quantized, compare, draw_comparison, watch_nets
from tazza.interop.int8.compare import HIGHEST_DB, TITLES
from tazza.workspace import Workspace
from tests.interop.int8.mixed import data, mixed


@pytest.fixture(scope="module")
def small() -> Quantized:
    return watch_nets(*mixed(), [{"data": data()}]).quantized(method="percentile")


@pytest.fixture(scope="module")
def compared(small: Quantized) -> Comparison:
    return compare(small, [{"data": part} for part in np.array_split(data(11, seed=8), 3)])


@pytest.mark.slow
def test_rows_are_sums_over_all_batches(small: Quantized, compared: Comparison) -> None:
    x, spaces = data(11, seed=8), (Workspace(), Workspace())
    for name, value in small.parameters.items():
        spaces[0].feed(name, value)
    spaces[1].run_net_once(small.init_net)
    for space, net in zip(spaces, (small.net, small.predict_net), strict=True):
        space.feed("data", x)
        space.run_net_once(net)
    row = next(row for row in compared.rows if row.blob == "pool")
    wanted, bytes = spaces[0].fetch("pool"), spaces[1].fetch("pool_int8")
    real = np.moveaxis((bytes.data.astype(np.float64) - bytes.zero_point) * bytes.scale, -1, 1)
    error = np.abs(wanted - real)
    assert row.noise == pytest.approx((error**2).sum() / (wanted.astype(np.float64) ** 2).sum(), rel=1e-3)
    assert row.signal_db == pytest.approx(-10 * np.log10(row.noise))
    assert row.largest_error == pytest.approx(error.max(), rel=1e-3)
    beyond = (wanted > bytes.scale * (255.5 - bytes.zero_point)) | (wanted < bytes.scale * (-0.5 - bytes.zero_point))
    assert row.clipped == pytest.approx(beyond.mean())


def test_every_layer_has_a_row_in_the_order_of_the_net(small: Quantized, compared: Comparison) -> None:
    order = [name for op in small.net.op for name in op.output]
    names = [row.blob for row in compared.rows]
    assert names == [name for name in order if name in names]
    assert {"stem_bn", "deep_bn", "point_bn", "sum", "joined", "pool", "leaky", "mean", "scores", "softmax"} <= set(
        names
    )
    assert all(row.in_bytes for row in compared.rows)
    assert 20 < compared.signal_db <= min(row.signal_db for row in compared.rows if row.blob in ("scores", "softmax"))
    assert compared.examples == 11
    assert compared.agreement is not None
    assert 0.5 < compared.agreement <= 1
    assert [row.added for row in compared.worst()] == sorted((row.added for row in compared.rows), reverse=True)


@pytest.mark.slow
def test_a_net_that_stays_float32_loses_nothing() -> None:
    seen = watch_nets(*mixed(), [{"data": data()}])
    names = [name for op in seen.net.op for name in op.output]
    small = seen.quantized(keep=names)
    found = compare(small, [{"data": data()}])
    assert (found.signal_db, found.agreement) == (HIGHEST_DB, 1.0)
    assert not any(row.in_bytes or row.added or row.largest_error for row in found.rows)
    assert set(small.kept.values()) == {"it was asked to stay"}


@pytest.mark.slow
def test_table_file_and_picture(compared: Comparison, tmp_path: Path) -> None:
    lines = compared.table().splitlines()
    assert all(title in lines[0] for title in TITLES)
    assert len(lines) == len(compared.rows) + 1
    assert lines[1].startswith(compared.worst()[0].blob)
    compared.write_csv(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["blob"] for row in rows] == [row.blob for row in compared.rows]
    assert [float(row["noise"]) for row in rows] == [row.noise for row in compared.rows]
    draw_comparison(tmp_path / "rows.svg", compared, title="mixed")
    assert "<svg" in (tmp_path / "rows.svg").read_text()


def test_no_batches(small: Quantized) -> None:
    with pytest.raises(ArgumentError, match="no batches to compare with"):
        compare(small, [])
