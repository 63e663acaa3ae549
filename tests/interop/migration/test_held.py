"""What an object is follows from what its variable was given, whatever the variable is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from caffe2.python import cnn, core, model_helper
from tazza.interop.migration.old_names import State
from tazza.interop.migration.report import report_on
from tazza.operator import SCHEMAS

HEAD = "from caffe2.python import cnn, core, model_helper\nfrom caffe2.python.model_helper import ModelHelper\n"
HOLDERS = {
    "{0} = core.Net('a')": core.Net,
    "{0} = ModelHelper(name='a')": model_helper.ModelHelper,
    "{0} = cnn.CNNModelHelper()": cnn.CNNModelHelper,
    "first = cnn.CNNModelHelper(); {0} = first": cnn.CNNModelHelper,
    "first = ModelHelper(); {0} = first.net": core.Net,
    "first = ModelHelper(); {0} = first.param_init_net": core.Net,
    "{0}, other = core.Net('a'), 3": core.Net,
    "{0} = None; {0} = core.Net('a')": core.Net,
    "{0}: core.Net = core.Net('a')": core.Net,
}
"""Statements that give a variable an object, and its class."""
NAMES = ("n", "m", "net", "model", "whatever", "self.n")


def tell(folder: Path, source: str) -> dict[str, State]:
    """Return what is told of the names in the last line of a program."""
    path = folder / "program.py"
    path.write_text(HEAD + source + "\n")
    last = (HEAD + source).count("\n") + 1
    report = report_on([path])
    return {one.name: one.found.state for one in report.names if last in [place.line for place in one.places]}


@pytest.mark.parametrize("given", HOLDERS)
def test_a_variable_is_called_anything(given: str, tmp_path: Path) -> None:
    """An operator that nobody declares is told of every holder of operators, one that is declared is there."""
    for name in NAMES:
        if ":" in given and "." in name:
            continue
        assert tell(tmp_path, f"{given.format(name)}\n{name}.Reluu('x', 'y')") == {"Reluu": State.ABSENT}
        assert tell(tmp_path, f"{given.format(name)}\n{name}.Relu('x', 'y')") == {"Relu": State.THERE}


@pytest.mark.parametrize("given", list(HOLDERS)[:3])
def test_a_method_is_there_where_its_class_has_it(given: str, tmp_path: Path) -> None:
    """Of all methods of these classes each is there where the class itself has it, or an operator is of its name."""
    methods = sorted({name for one in HOLDERS.values() for name in dir(one) if name[0].isupper()})
    calls = "; ".join(f"n.{name}('x')" for name in methods)
    states = tell(tmp_path, f"{given.format('n')}\n{calls}")
    there = {name.rpartition(".")[2] for name, state in states.items() if state is State.THERE}
    assert there == {name for name in methods if hasattr(HOLDERS[given], name) or SCHEMAS.get(name) is not None}
    assert {name.rpartition(".")[2] for name in states} == set(methods)


def test_a_variable_is_of_its_function(tmp_path: Path) -> None:
    source = "def f():\n    n = core.Net('a')\ndef g(n):\n    n.Foo()"
    assert tell(tmp_path, source) == {}
    assert tell(tmp_path, "n = core.Net('a')\ndef g():\n    n.Foo()") == {"Foo": State.ABSENT}
    assert tell(tmp_path, "def g(n: core.Net):\n    n.Foo()") == {"Foo": State.ABSENT}
    assert tell(tmp_path, "n = core.Net('a')\n[n.Foo() for n in others]") == {}


@pytest.mark.parametrize("given", ["n = n", "n = m; m = n", "n = core.Net('a'); n = f(n)", "n += core.Net('a')"])
def test_what_is_not_known_is_told_by_names_alone(given: str, tmp_path: Path) -> None:
    assert tell(tmp_path, f"{given}\nn.Foo()") == {}


def test_what_a_program_adds_to_an_object_is_its_own(tmp_path: Path) -> None:
    assert tell(tmp_path, "n = core.Net('a')\nn.Foo = f; n.Foo()") == {}
