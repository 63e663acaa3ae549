"""Programs of Python 2 are read: every form is told with its line, and the names behind it are found."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import FormatError
from tazza.interop.migration.python2 import FORMS, parsed
from tazza.interop.migration.remark import remarks_on
from tazza.interop.migration.uses import uses_of

PROGRAMS = {
    "print": ("x = 1\nprint 'a %d' % \\\n    name\n", 2),
    "exec": ("exec name in {}\n", 1),
    "raise A, b": ("if x: raise ValueError, name\n", 1),
    "except A, b": ("try:\n    pass\nexcept (A, B), name:\n    pass\n", 3),
    "`a`": ("x = `name`\n", 1),
    "<>": ("x = name <> 3\n", 1),
    "0777": ("x = name, 0777\n", 1),
    "1L": ("x = name + 0xffL\n", 1),
    'ur""': ("x = ur'\\d', name\n", 1),
    "lambda (a, b)": ("f = lambda (a, b): a + name\n", 1),
    "def f((a, b))": ("def f(x, (a, b)):\n    return name\n", 1),
    "tabs and blanks": ("if x:\n        y = 1\n\tz = name\n", 3),
}
"""Form -> a program that has it, in which line; `name` stands in each."""


@pytest.mark.parametrize("form", [form.what for form in FORMS])
def test_a_form_is_told_by_its_line(form: str) -> None:
    source, line = PROGRAMS[form]
    with pytest.raises(SyntaxError):
        ast.parse(source)
    tree, remarks = parsed(source)
    assert [(remark.line, remark.what) for remark in remarks] == [(line, form)]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.name is not None}
    assert "name" in names


@pytest.mark.parametrize(
    "source",
    [
        "print('a')\n",
        "print\n",
        "d = {0: print}\n",
        "x = '''\nprint 'a'\n'''\n",
        "# print 'a'\n",
        "try:\n    import urllib2\nexcept ImportError:\n    import urllib.request as urllib2\n",
        "if sys.version_info[0] < 3:\n    text = unicode\n",
        "range = xrange = 3\nf(xrange)\n",
        "six.iteritems(d)\nd.items()\n",
        "import numpy as np\nnp.float32(np.asarray(1))\n",
        "f(pad=int((k - 1) / 2), stride=2, rate=1 / 3)\n",
    ],
)
def test_programs_of_python_3_need_nothing(source: str) -> None:
    tree, remarks = parsed(source)
    assert [*remarks, *remarks_on(list(ast.walk(tree)))] == []


def test_what_looks_like_a_form_in_a_text_is_none() -> None:
    _, remarks = parsed('"""\nprint "a"\n"""\nprint "b"\n')
    assert [remark.line for remark in remarks] == [4]


@pytest.mark.parametrize(
    ("source", "what", "instead"),
    [
        ("import urllib2", "urllib2", "urllib.request"),
        ("from cPickle import load", "cPickle", "pickle"),
        ("for i in xrange(3): pass", "xrange", "range"),
        ("d.iteritems()", ".iteritems", "items"),
        ("print >>f, 'a'", "print", "print(...)"),
        ("print('%d') % 3", "print", "print(...)"),
        ("import numpy\nnumpy.asscalar(a)", "numpy.asscalar", "a.item()"),
        ("import numpy as np\nx = np.float(3)", "np.float", "float"),
        ("brew.conv(m, 'x', 'y', 1, 2 * n / 3, 5)", "conv(a / b)", "//"),
        ("brew.max_pool(m, 'x', 'y', kernel=n / 2)", "kernel = a / b", "//"),
        ("net.Conv(['x'], 'y', pads=[(k - 1) / 2] * 4)", "pads = a / b", "//"),
        ("pad = (k - 1) / 2", "pad = a / b", "//"),
    ],
)
def test_what_fails_later_is_told(source: str, what: str, instead: str) -> None:
    (remark,) = remarks_on(list(ast.walk(ast.parse(source))))
    assert (remark.line, remark.what) == (source.count("\n") + 1, what)
    assert remark.instead.startswith(instead)


@pytest.mark.parametrize("source", ["x = (", "a b c\n", "x = 1\0", "(" * 5000, "-" * 50000 + "1", "if x:\ny = 1\n"])
def test_what_is_no_program_is_refused(source: str) -> None:
    with pytest.raises(FormatError, match="Python"):
        parsed(source)


LINES = [
    *(source for source, _ in PROGRAMS.values()),
    *(
        "if x:",
        "else:",
        "    ",
        "\t",
        '"""',
        "'",
        "(",
        ")",
        "\\",
        "# é",
        "name.Relu(",
        "import caffe2.python as p",
        "\0",
    ),
    *("from caffe2.python import *", "print", "lambda (", "`", "0o8", "x = core.Net('a').Proto().op[0]", "}"),
]


@given(st.lists(st.sampled_from(LINES), max_size=12), st.sampled_from(["\n", "", " "]))
def test_whatever_is_written_is_read_or_refused(lines: list[str], between: str) -> None:
    try:
        tree, remarks = parsed(between.join(lines))
    except FormatError:
        return
    nodes = list(ast.walk(tree))
    for use in uses_of(nodes).found:
        assert use.name
    for remark in [*remarks, *remarks_on(nodes)]:
        assert 1 <= remark.line <= between.join(lines).count("\n") + 1
