"""Python 2: programs that Python 3 does not read are mended as far as their names can be found, and told line by line.

What stands in a line is changed in place, so that the numbers of lines stay. What comes out is read, and never run: a
statement such as `print "a" % b` becomes an assignment, whose end nobody has to look for.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from tazza.data_class import dataclass
from tazza.errors import FormatError
from tazza.runtime.files import one_line


@dataclass(frozen=True, slots=True, order=True)
class Remark:
    """What has to be changed in a line, whatever library it is for, and what to write instead."""

    line: int
    what: str
    instead: str
    python2: bool = True
    """Whether it is of Python 2, and `2to3` mends it; else it is of an old NumPy, or a matter of numbers."""


@dataclass(frozen=True, slots=True)
class Form:
    """A form that Python 3 does not read: how it looks, and a form with the same names that it does read."""

    what: str
    pattern: re.Pattern[str]
    readable: str
    instead: str


_BEGIN = r"(^\s*|[:;]\s*)"
_PRINT = r"""print(?:\s*>>|\s+(?=[^\s=(.,)\]])|(?=["'`]))"""
_PAIR = r"(?<=[(,])\s*\((\s*\w+\s*(?:,\s*\w+\s*)*),?\s*\)(?=\s*[,)].*:)"

FORMS = (
    Form("print", re.compile(_BEGIN + _PRINT), r"\1print_ = ", "print(...)"),
    Form("exec", re.compile(_BEGIN + r"exec\s+(?=[^\s=(])"), r"\1exec_ = ", "exec(...)"),
    Form("raise A, b", re.compile(_BEGIN + r"raise\s+(?=[\w.]+\s*,)"), r"\1raise_ = ", "raise A(b)"),
    Form(
        "except A, b",
        re.compile(r"\bexcept\s+([\w.]+|\([^()]*\))\s*,\s*(\w+)\s*:"),
        r"except \1 as \2:",
        "except A as b",
    ),
    Form("`a`", re.compile(r"`([^`]*)`"), r"repr(\1)", "repr(a)"),
    Form("<>", re.compile("<>"), "!=", "!="),
    Form("1L", re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)[lL]\b"), r"\1", "1"),
    Form("0777", re.compile(r"(?<![\w.])0+([1-7][0-7]*)(?![\w.])"), r"0o\1", "0o777"),
    Form('ur""', re.compile(r"\b[uU][rR](?=[\"'])"), "r", 'r""'),
    Form("lambda (a, b)", re.compile(r"\blambda\s*\(([^()]*)\)\s*:"), r"lambda \1:", "lambda pair"),
    Form("def f((a, b))", re.compile(_PAIR), r"\1", "def f(pair)"),
    Form("tabs and blanks", re.compile(r"^\s*\t"), "        ", "blanks"),
)  # fmt: skip
"""Forms of Python 2, in the order in which they are looked for."""

MODULES = {
    "BaseHTTPServer": "http.server",
    "ConfigParser": "configparser",
    "Cookie": "http.cookies",
    "HTMLParser": "html.parser",
    "Queue": "queue",
    "SocketServer": "socketserver",
    "StringIO": "io.StringIO, or io.BytesIO for bytes",
    "Tkinter": "tkinter",
    "__builtin__": "builtins",
    "cPickle": "pickle",
    "cStringIO": "io.StringIO, or io.BytesIO for bytes",
    "commands": "subprocess",
    "cookielib": "http.cookiejar",
    "copy_reg": "copyreg",
    "httplib": "http.client",
    "sets": "set",
    "thread": "_thread",
    "urllib2": "urllib.request",
    "urlparse": "urllib.parse",
}
"""Modules that Python 3 calls otherwise."""

BUILTINS = {
    "basestring": "str",
    "execfile": "exec(open(...).read())",
    "long": "int",
    "raw_input": "input",
    "reduce": "functools.reduce",
    "reload": "importlib.reload",
    "unichr": "chr",
    "unicode": "str",
    "xrange": "range",
}
"""Functions and types that Python 3 calls otherwise."""

METHODS = {"has_key": "key in d", "iteritems": "items", "iterkeys": "keys", "itervalues": "values"}
"""Methods of dicts that Python 3 calls otherwise."""


def parsed(source: str) -> tuple[ast.Module, list[Remark]]:
    r"""Return the tree of a program of Python 3 or 2, and the forms of Python 2 in it.

    >>> tree, remarks = parsed("for x in a:\n    print 'x is', \\\n        x\n")
    >>> len(tree.body), [(remark.line, remark.what) for remark in remarks]
    (1, [(2, 'print')])

    Raises:
        FormatError: it is neither.
    """
    lines = source.split("\n")
    found: set[Remark] = set()
    left = list(FORMS)
    while True:
        try:
            tree = _tree("\n".join(lines))
        except SyntaxError as error:
            form = _form_at(lines, error, left)
            if form is None:
                raise FormatError(f"line {error.lineno} is no Python, neither 3 nor 2: {error.msg}") from error
            told = set(_mend(lines, form))
            if told <= found:
                left.remove(form)  # it stands there no more, and something else is wrong
            found |= told
        except (ValueError, RecursionError, MemoryError) as error:
            raise FormatError(f"it is no program that Python reads: {one_line(error)}") from error
        else:
            texts = _lines_of_texts(tree)
            return tree, sorted(remark for remark in found if remark.line not in texts)


def _tree(source: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in texts: they are the program's own matter
        return ast.parse(source)


def _form_at(lines: list[str], error: SyntaxError, left: list[Form]) -> Form | None:
    """Return the form that stands where Python stopped, or else one that stands anywhere: it may stop too late."""
    number = 0 if error.lineno is None else error.lineno
    for line in lines[max(0, number - 2) : number][::-1]:
        for form in left:
            if form.pattern.search(line):
                return form
    return next((form for form in left if any(map(form.pattern.search, lines))), None)


def _mend(lines: list[str], form: Form) -> Iterator[Remark]:
    """Change all lines that have a form; yield a remark for each."""
    for place, line in enumerate(lines):
        changed = form.pattern.sub(form.readable, line)
        if changed != line:
            lines[place] = changed
            yield Remark(place + 1, form.what, form.instead)


def _lines_of_texts(tree: ast.Module) -> set[int]:
    """Return the lines of texts over several lines: what looks like a form there is none."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.end_lineno is not None
        if node.end_lineno > node.lineno
        for line in range(node.lineno, node.end_lineno + 1)
    }
