"""What a program uses is found from its imports, whatever it calls it."""

from __future__ import annotations

import ast

import pytest

from tazza.interop.migration.uses import Kind, uses_of

MAKES_RELU = [("name", "core.CreateOperator"), ("operator", "Relu")]


def found(source: str) -> list[tuple[str, str]]:
    """Return kinds and names of what a program uses, without the old package's own name, imports left out."""
    return [
        (use.kind.value, use.name.removeprefix("caffe2.python."))
        for use in uses_of(list(ast.walk(ast.parse(source)))).found
        if use.line > 1
    ]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("from caffe2.python import core as c\nc.Net('a')", [("name", "core.Net")]),
        ("import caffe2.python.core\ncaffe2.python.core.Net('a')", [("name", "core.Net")]),
        ("import caffe2.python.core as c\nx = c.DataType.FLOAT", [("name", "core.DataType.FLOAT")]),
        ("from caffe2.python.core import Net\nclass A(Net): pass", [("name", "core.Net")]),
        (
            "from caffe2.python import workspace\nC = workspace.C\nC.create_db",
            [("name", "workspace.C"), ("name", "workspace.C.create_db")],
        ),
        (
            "from caffe2.python import core\nmodel.net.Mul(['a']).ReduceBackSum()",
            [("method", "ReduceBackSum"), ("method", "Mul")],
        ),
        ("from caffe2.python import core\ncore.CreateOperator('Relu', [], [])", MAKES_RELU),
        ("from caffe2.python.core import CreateOperator as make\nmake(operator_type='Relu')", MAKES_RELU),
        ("import torch\ntorch.nn.Conv()\ntorch.Relu().Sum()", []),
        ("from . import core\ncore.Net()", []),
        ("from caffe2.python import workspace\nworkspace.FetchBlob('a').T", [("name", "workspace.FetchBlob")]),
        ("from caffe2.python.net_builder import *\nops", [("bare", "ops")]),
    ],
)
def test_names_are_followed(source: str, wanted: list[tuple[str, str]]) -> None:
    assert sorted(found(source)) == sorted(wanted)


def test_names_that_mean_something_else_too_are_not_sure() -> None:
    source = "from caffe2.python import core, optimizer\ncore.Net\noptimizer = f()\noptimizer.Nothing\n"
    names = {
        use.name.removeprefix("caffe2.python."): use.sure for use in uses_of(list(ast.walk(ast.parse(source)))).found
    }
    assert names["core.Net"]
    assert not names["optimizer.Nothing"]


def test_the_type_of_an_operator_or_a_net() -> None:
    source = "import caffe2\nop.type = 'Relu'\nnet.type = 'dag'\nx = 'Sum'"
    uses = uses_of(list(ast.walk(ast.parse(source)))).found
    assert [(use.kind, use.name, use.sure) for use in uses[1:]] == [
        (Kind.OPERATOR, "Relu", False),
        (Kind.OPERATOR, "dag", False),
    ]
