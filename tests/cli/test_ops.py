"""`tazza ops`: operators by family with engines, one of them in full, near names for wrong ones, and JSON."""

from __future__ import annotations

import json

import pytest

from tazza.operator import ENGINES, SCHEMAS, why_unavailable
from tazza.operator.description import families
from tests.cli.conftest import Run


@pytest.mark.slow
def test_all_operators_are_listed_by_family_with_their_engines(run: Run) -> None:
    lines = run("ops").output.splitlines()
    indented = [line.split() for line in lines if line.startswith("  ")]
    assert [line.split()[0] for line in lines if line and not line.startswith(" ")] == [
        name for name, schemas in families().items() if not all(each.private for each in schemas)
    ]
    assert sorted(words[0] for words in indented) == [type for type in sorted(SCHEMAS) if not SCHEMAS[type].private]
    for type, *engines in indented:
        told = [name.strip("()") for name in engines]
        assert told == [name for name in sorted(ENGINES) if why_unavailable(type, "cpu", name) is None or name in told]


@pytest.mark.slow
def test_an_engine_that_is_not_usable_stands_in_brackets(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(type: str, device: str, name: str) -> str:
        return "its library is missing"

    monkeypatch.setattr("tazza.operator.description.why_unavailable", missing)
    lines = run("ops", "--family", "nn.relu").output.splitlines()
    assert ["Relu", "(cuda)", "(native)", "(reference)"] in [line.split() for line in lines]
    assert "(native: its library is missing)" in run("ops", "Relu").output
    found = json.loads(run("ops", "--family", "nn.relu", "--json").output)
    assert {each["type"]: each["unavailable"].get("native") for each in found}["Relu"] == "its library is missing"


@pytest.mark.slow
def test_a_family_a_field_and_an_engine(run: Run) -> None:
    whole = run("ops", "--family", "nn").output
    family = run("ops", "--family", "nn.conv").output
    assert "\n  Conv " in family
    assert family.strip() in whole
    assert "nn.conv_relu" not in family
    found = json.loads(run("ops", "--engine", "gemm", "--json").output)
    assert {each["type"] for each in found} == {t for t in SCHEMAS if why_unavailable(t, "cpu", "gemm") is None}
    assert all("gemm" in each["engines"] for each in found)


@pytest.mark.slow
def test_one_operator_in_full(run: Run) -> None:
    output = run("ops", "LeakyRelu").output
    for part in (
        "Y = X where X >= 0, else alpha * X.",
        "  X  float32  (*S)",
        "  Y  like X",
        "  alpha  float  = 0.01  slope for X < 0",
        "SchemaError, ArgumentError, DTypeError, ShapeError",
        "gradient  yes",
        "in place  Y on X",
        "effects   pure",
        "engines   ",
        "tazza.ops.nn.relu",
        '>>> run("LeakyRelu", [-1.0, 2.0], alpha=0.5)',
    ):
        assert part in output
    assert "ArgumentError: n = <n>, it must be above 0" in run("ops", "ReluN").output
    assert run("show", "--operator", "LeakyRelu").output == output


def test_one_operator_as_json(run: Run) -> None:
    found = json.loads(run("ops", "TopK", "--json").output)
    assert [each["name"] for each in found["inputs"]] == ["X", "K"]
    assert found["inputs"][1]["types"] == ["int64"]
    assert {each["name"]: each["default"] for each in found["arguments"]} == {"k": "-1", "axis": "-1"}
    assert found["gradient"] == "yes"
    assert {"error": "ShapeError", "message": "K has <size of K> elements, it must have 1"} in found["complaints"]
    assert "reference" in [each["name"] for each in found["engines"]]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["Convv"], "did you mean Conv"),
        (["topk"], "did you mean TopK"),
        (["--family", "nn.convv"], "did you mean nn.conv"),
        (["--family", "zzz"], "`tazza ops` lists all"),
        (["--engine", "onednnn"], "did you mean onednn"),
        (["Conv", "--engine", "gemm"], "tazza ops Conv"),
    ],
)
def test_wrong_names(run: Run, words: list[str], hint: str) -> None:
    result = run("ops", *words)
    assert result.exit_code == 1
    assert hint in result.stderr


@pytest.mark.slow
def test_one_of_every_fifth_family_is_shown(run: Run) -> None:
    for schemas in list(families().values())[::5]:
        assert run("ops", schemas[-1].type).output.startswith(f"{schemas[-1].type}\n")
