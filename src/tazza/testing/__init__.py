"""The judge of operators: a `Case` is data, `check_op` requires of it all that holds for any operator, on every engine.

It judges the operators of tazza itself, and those of anybody else. It needs NumPy alone, and works under any runner:

>>> import numpy as np
>>> from tazza.testing import Case, check_op
>>> x = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
>>> "reference" in check_op(Case("Relu", [x], np.maximum(x, 0), batched=(0,)))
True
>>> check_op(Case("Relu", [x], np.abs(x)), "reference")  # doctest: +ELLIPSIS
Traceback (most recent call last):
tazza.errors.CheckError: Relu on engine reference breaks the law: output Y agrees with `expected`
...

With pytest a table of cases becomes a test of each on each engine:

    @pytest.mark.parametrize(("case", "engine", "name"), trials(CASES))
    def test_snake(case: Case, engine: str, name: str) -> None:
        check_op(case, engine)
"""

from tazza.testing.case import Case, Trial, engines_of, trials
from tazza.testing.gradient import check_gradient, evaluate
from tazza.testing.judge import check_op
from tazza.testing.running import Settle, assert_ran, refusal, run
from tazza.testing.value import assert_close, assert_near

__all__ = [
    "Case",
    "Settle",
    "Trial",
    "assert_close",
    "assert_near",
    "assert_ran",
    "check_gradient",
    "check_op",
    "engines_of",
    "evaluate",
    "refusal",
    "run",
    "trials",
]
