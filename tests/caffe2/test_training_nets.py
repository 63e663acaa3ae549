"""What the training modules add to nets is what Caffe2 added: two folders of `tests/data` have cases, and its nets.

Operators that are not there yet are taken for known, so that their optimizers and layers are judged all the same.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from caffe2.python import _net, _operators, core, workspace
from tazza.operator import SCHEMAS
from tests.sampled import sampled
from tools import record_training_nets
from tools.record_training_nets import imported, read_cases, run_case

FOLDERS = [Path(__file__).parents[1] / "data" / name for name in ("training", "seq2seq")]
CASES = {
    case: code
    for folder in FOLDERS
    for case, code in read_cases((folder / "cases.txt").read_text(encoding="utf-8")).items()
}
RECORDED: dict[str, dict[str, Any]] = {
    case: nets
    for folder in FOLDERS
    for case, nets in json.loads(gzip.decompress((folder / "nets.json.gz").read_bytes())).items()
}


def types_in(value: Any) -> Iterator[str]:
    """Yield the types of all operators in what was recorded."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        yield from (op[0] for op in named.get("ops", []))
        for part in named.values():
            yield from types_in(part)


KNOWN = set(types_in(RECORDED))


def raised(act: Callable[[], Any]) -> Any:
    """Return what `act` returns, or the names of the classes of what it raises."""
    try:
        return act()
    except Exception as error:
        return "|".join(cls.__name__ for cls in type(error).__mro__)


def equal(got: Any, wanted: Any) -> bool:
    """Whether two values are equal; an error may be of a class below the one that was raised."""
    if isinstance(got, dict):
        named = cast("dict[str, Any]", got)
        return named.keys() == wanted.keys() and all(equal(named[key], wanted[key]) for key in named)
    if isinstance(got, list):
        listed = cast("list[Any]", got)
        return len(listed) == len(wanted) and all(map(equal, listed, wanted))
    if isinstance(got, str) and "|" in got:
        return wanted in got.split("|")
    return got == wanted or (got != got and wanted != wanted)


def is_known(op_type: str) -> bool:
    """Whether an operator is there, or was recorded."""
    return op_type in KNOWN or op_type in SCHEMAS


@pytest.fixture
def _all_operators(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    for module in (_net, _operators, core):
        monkeypatch.setattr(module, "IsOperator", is_known)
    monkeypatch.setattr(record_training_nets, "err", raised)
    monkeypatch.setattr(workspace, "GlobalInit", len)  # it sets up a log, for the rest of the process
    names = core.Net._net_names_used  # pyright: ignore[reportPrivateUsage] -- nets of other tests have names of the cases
    taken = set(names)
    names.clear()
    yield
    names.update(taken)


@pytest.mark.parametrize("case", sampled(CASES, 8))
@pytest.mark.usefixtures("_all_operators")
def test_nets_are_those_of_caffe2(case: str) -> None:
    got = json.loads(json.dumps(run_case(CASES[case], imported)))
    assert equal(got, RECORDED[case]), differing(got, RECORDED[case])


def differing(got: Any, wanted: Any, path: str = "") -> list[str]:
    """Return where two values differ."""
    if isinstance(got, dict) and isinstance(wanted, dict):
        ours, theirs = cast("dict[str, Any]", got), cast("dict[str, Any]", wanted)
        parts = ((name, ours.get(name), theirs.get(name)) for name in sorted({*ours, *theirs}))
        return [line for name, one, other in parts for line in differing(one, other, f"{path}.{name}")]
    if isinstance(got, list) and isinstance(wanted, list) and path.endswith(".ops"):
        pairs = cast("list[tuple[Any, Any]]", list(zip(got, wanted, strict=False)))  # pyright: ignore[reportUnknownArgumentType]
        return [f"{path}[{at}]: {pair[0]}, not {pair[1]}" for at, pair in enumerate(pairs) if pair[0] != pair[1]]
    return [] if equal(got, wanted) else [f"{path}: {got}, not {wanted}"]


def test_all_cases_are_recorded() -> None:
    assert set(RECORDED) == set(CASES)


def test_operators_that_are_not_there_are_refused_by_name() -> None:
    model = imported("model_helper").ModelHelper("refused")
    for name in sorted(KNOWN - set(SCHEMAS)):
        with pytest.raises(AttributeError, match=name):
            getattr(model.net, name)
