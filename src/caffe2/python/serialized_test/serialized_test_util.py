"""Tests whose results are compared with those of an earlier day, which files hold.

A test drawn by `given` runs twice: with inputs drawn by a fixed seed, whose results are compared, and once more. Files
lie in `serialized_test/data/operator_test` of any folder of the package, or of the current one.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import sys
import threading
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np

from caffe2.python import __path__ as FOLDERS
from caffe2.python import gradient_checker
from caffe2.python import hypothesis_test_util as hu
from caffe2.python.serialized_test import _recorded
from tazza.proto import DeviceOption, OperatorDef

operator_test_type = "operator_test"
TOP_DIR = str(Path(__file__).resolve().parent)
DATA_SUFFIX = "data"
FOUND = (Path(folder, "serialized_test", DATA_SUFFIX) for folder in FOLDERS)
DATA_DIR = str(next((folder for folder in FOUND if folder.is_dir()), Path(TOP_DIR, DATA_SUFFIX)))
"""The folder of files that one of the folders of the package brings."""
_output_context = threading.local()


def given(*given_args: Any, **given_kwargs: Any) -> Callable[..., Any]:
    """Draw inputs as `hypothesis.given` does: one draw by a fixed seed that is compared with files, and one more."""

    def wrapper(f: Callable[..., Any]) -> Callable[..., Any]:
        def drawn() -> Callable[..., Any]:
            once = hypothesis.settings(max_examples=1)(hypothesis.given(*given_args, **given_kwargs)(f))
            return hypothesis.seed(0)(once)

        compared, more = drawn(), drawn()

        def func(self: Any, *args: Any, **kwargs: Any) -> None:
            self.should_serialize = True
            compared(self, *args, **kwargs)
            self.should_serialize = False
            more(self, *args, **kwargs)

        return func

    return wrapper


def seed(*args: Any, **kwargs: Any) -> Callable[..., Any]:
    """Fix what hypothesis draws."""
    return hypothesis.seed(*args, **kwargs)


def _getGradientOrNone(op_proto: OperatorDef) -> list[OperatorDef]:
    """Return the gradient operators, none where there is no gradient."""
    try:
        return gradient_checker.getGradientForOp(op_proto)[0]
    except Exception:
        return []


class SerializedTestCase(hu.HypothesisTestCase):
    """A test of operators whose results are recorded."""

    should_serialize = False

    def get_output_dir(self) -> str:
        """Return the folder that holds results, or would: one that was asked for, of the package, or below this one."""
        folder = Path(getattr(_output_context, "output_dir", DATA_DIR), operator_test_type)
        if folder.is_dir():
            return str(folder)
        return str(Path.cwd().joinpath(*__name__.split(".")[:-1], DATA_SUFFIX, operator_test_type))

    def get_output_filename(self) -> str:
        """Return the name of the file of this test: its module and its method."""
        module = Path(inspect.getfile(type(self))).name.partition(".")[0]
        return f"{module}.{self.id().rpartition('.')[2]}"

    def _file(self) -> Path:
        return Path(self.get_output_dir()) / f"{self.get_output_filename()}.zip"

    def serialize_test(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        grad_ops: Sequence[OperatorDef],
        op: OperatorDef,
        device_option: DeviceOption,
    ) -> None:
        """Write results to the file of this test."""
        path = self._file()
        path.parent.mkdir(parents=True, exist_ok=True)
        _recorded.write(path, _recorded.Recorded(op, list(inputs), list(outputs), list(grad_ops), device_option))

    def compare_test(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        grad_ops: Sequence[OperatorDef],
        atol: float = 1e-7,
        rtol: float = 1e-7,
    ) -> None:
        """Assert that results are those of the file; of other inputs than drawn, where the file has others."""
        kept = _recorded.read(self._file())
        if not all(map(np.array_equal, inputs, kept.inputs)):
            outputs = hu.runOpOnInput(kept.device, kept.definition, kept.inputs)
            grad_ops = _getGradientOrNone(kept.definition)
        for value, wanted in zip(outputs, kept.outputs, strict=False):
            np.testing.assert_allclose(value, wanted, atol=atol, rtol=rtol)
        for position, one in enumerate(grad_ops):
            self._assertSameOps(kept.gradient[position], one)

    def _assertSameOps(self, op1: OperatorDef, op2: OperatorDef) -> None:
        """Assert that two operators are equal, but for the order of their arguments."""
        sorted_ones: list[OperatorDef] = []
        for one in (op1, op2):
            made = OperatorDef()
            made.CopyFrom(one)
            made.arg.sort(key=lambda argument: argument.name)
            sorted_ones.append(made)
        self.assertEqual(*sorted_ones)

    def assertSerializedOperatorChecks(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        gradient_operator: Sequence[OperatorDef],
        op: OperatorDef,
        device_option: DeviceOption,
        atol: float = 1e-7,
        rtol: float = 1e-7,
    ) -> None:
        """Compare with the file, or write it."""
        if not self.should_serialize:
            return
        if getattr(_output_context, "should_generate_output", False):
            self.serialize_test(inputs, outputs, gradient_operator, op, device_option)
        else:
            self.compare_test(inputs, outputs, gradient_operator, atol, rtol)

    @functools.wraps(hu.HypothesisTestCase.assertReferenceChecks)
    def assertReferenceChecks(  # pyright: ignore[reportIncompatibleMethodOverride] -- it takes the same
        self, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """Assert that an operator gives what a reference does, and what the file holds."""
        outputs = super().assertReferenceChecks(*args, **kwargs)
        if not getattr(_output_context, "disable_serialized_check", False):
            signature = inspect.signature(hu.HypothesisTestCase.assertReferenceChecks)
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            of = bound.arguments
            rtol, atol = of["threshold"], of["atol"]
            self.assertSerializedOperatorChecks(
                of["inputs"],
                outputs,
                _getGradientOrNone(of["op"]),
                of["op"],
                of["device_option"],
                rtol if atol is None else atol,
                rtol,
            )
        return outputs


def testWithArgs() -> None:
    """Run the tests of the program; `-G` writes files."""
    parser = argparse.ArgumentParser()
    for short, long, name, told in (
        ("-G", "--generate-serialized", "generate", "write files; else results are compared with them"),
        ("-D", "--disable-serialized_check", "disable", "do not compare with files"),
        ("-C", "--disable-gen-coverage", "disable_coverage", "of no effect: no page of coverage is written"),
    ):
        parser.add_argument(short, long, action="store_true", dest=name, help=told)
    parser.add_argument("-O", "--output", default=DATA_DIR, help="the folder of the files")
    parser.add_argument("unittest_args", nargs="*")
    args = parser.parse_args()
    sys.argv[1:] = args.unittest_args
    _output_context.should_generate_output = args.generate
    _output_context.output_dir = args.output
    _output_context.disable_serialized_check = args.disable
    unittest.main()
