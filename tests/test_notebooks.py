"""What notebooks show of nets, plans, profiles, tensors and predictors: whole HTML, in which no name is markup."""

from __future__ import annotations

from collections.abc import Generator
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import tazza
from tazza.models import Model
from tazza.nets import create_net
from tazza.observers.recorder import profile_net
from tazza.runtime.html import ROWS_MAX, table
from tazza.tensor import Tensor

NAME = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """The elements of a text, which have to be closed in order, and the text between."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.words = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert {name for name, _ in attrs} <= {"style"}
        self.open.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def shown() -> Generator[dict[str, Any]]:
    """One of each kind, of a net with a blob that is called like an element."""
    model = Model("page")
    hidden = model.relu(model.conv("data", NAME, 1, 3, 5), "hidden")
    model.net.add_external_output(model.softmax(model.fc(hidden, "scores", 3 * 36, 4), "softmax"))
    workspace = tazza.Workspace()
    workspace.run_net_once(model.init_net.proto)
    workspace.feed("data", np.zeros((2, 1, 10, 10), np.float32))
    net = create_net(model.net.proto, workspace)
    profile = profile_net(net, runs=2)
    found: dict[str, Any] = {
        "model": model,
        "net": model.net,
        "running net": net,
        "profile": profile,
        "table": profile.table(profile.by_type(), what="type"),
        "explanation": net.explain(),
        "tensor": Tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3)),
    }
    with tazza.Predictor(model.net.proto, workspace, inputs=["data"]) as predictor:
        predictor.run(data=np.zeros((2, 1, 10, 10), np.float32))
        yield found | {
            "predictor": predictor,
            "plan": predictor.net,
            "explained plan": predictor.net.explain(times=True),
        }
    net.close()


EXPECTED = {
    "model": ["hidden", "scores_w", "[4, 108]", "weight", "kernel", NAME],
    "net": ["Conv", "hidden", "softmax", NAME],
    "running net": ["Conv", "Softmax", NAME],
    "profile": ["Conv", "2 runs", "mean ms", NAME],
    "table": ["Conv", "Softmax", "mean ms"],
    "explanation": ["Conv", "engine", NAME],
    "tensor": ["float32[2, 3], 24 bytes", "[3., 4., 5.]"],
    "predictor": ["takes", "data", "float32", "gives", "softmax", NAME],
    "plan": ["Conv", "softmax"],
    "explained plan": ["engine", "arena"],
}


@pytest.mark.parametrize("kind", EXPECTED)
def test_html_is_whole_and_says_what_there_is(shown: dict[str, Any], kind: str) -> None:
    elements = Elements(shown[kind]._repr_html_())
    assert set(elements.seen) <= {"div", "b", "table", "tr", "th", "td", "pre"}
    assert [word for word in EXPECTED[kind] if word not in elements.words] == []


def test_every_kind_is_expected(shown: dict[str, Any]) -> None:
    assert set(EXPECTED) == set(shown)


def test_long_tables_are_cut() -> None:
    html = table(["number"], [[str(number)] for number in range(ROWS_MAX + 5)])
    assert "and 5 more rows" in html
    assert html.count("<tr>") == ROWS_MAX + 1


def test_slow_rows_are_bold() -> None:
    html = table(["name", "ms"], [["fast", "1"], ["slow", "9"]], numbers={1}, marked={1})
    assert html.count("font-weight:bold") == 2
