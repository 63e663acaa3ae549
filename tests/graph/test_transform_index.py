"""The index of transforms: what is up to date, and what it spares."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tazza.graph import transform_index

SPARED = """
import sys
from tazza.graph.text import parse_net, print_net
from tazza.graph.transform import TRANSFORMS, apply_all, order
made = apply_all(parse_net("in: x", "out: z", "y = Copy(x)", "z = Relu(y)"))
assert print_net(made.net).endswith("z = Relu(x)"), print_net(made.net)
assert list(made.counts) == order()
print(*TRANSFORMS.registered())
"""


def test_index_is_up_to_date() -> None:
    assert transform_index.PATH.read_text() == transform_index.dump(transform_index.generate()), "run `make index`"


@pytest.mark.slow
def test_transforms_that_need_other_operators_are_not_imported() -> None:
    ran = subprocess.run([sys.executable, "-c", SPARED], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    needless = {name for name, one in transform_index.index().items() if one["needs"] is not None}
    assert loaded == transform_index.index().keys() - needless
    assert needless
