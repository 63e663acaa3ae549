"""The page of operators says what schemas, kernels and recorded runs say."""

from __future__ import annotations

import pytest

from tazza.operator import ENGINES
from tools.write_operators import PAGE, text


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    missing = [name for name in ENGINES if ENGINES[name].unavailable() is not None]
    if missing:
        pytest.skip(f"its counts are with all engines; here lacks {', '.join(missing)}")
    assert PAGE.read_text() == text(), "run `make index`"
