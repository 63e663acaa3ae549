"""Five models on a CUDA device: each of their operators has a kernel there, and gives its family's numbers."""

from __future__ import annotations

import importlib

import pytest

from tazza.operator import find_schema
from tazza.operator.index import index
from tests.cuda_grid import backwards
from tests.device.cuda_cases import cases_in, run_there, sampled
from tests.engines.cuda.models import MODELS, UPDATES, engines_of, types_of

SMALL = ("lenet", "lstm", "dlrm")
"""Nets that are built at once; an optimizer adds the same operators to the others as to these."""
NOTHING = "there is no row, or no class"
"""Why some refuse a batch of none, which comes last of what is asked of a case."""
FEW = 2
"""Cases of a type that are run, the second with the last thread first.

`test_rows` runs more of some families, and all where there is a device."""


@pytest.mark.slow
def test_every_operator_of_the_models_has_a_kernel() -> None:
    found = {type for name in SMALL for update in UPDATES for type in types_of(name, update)}
    found.update(*(types_of(name, "sgd with momentum") for name in MODELS.keys() - {*SMALL}))
    assert len(found) > 50
    assert sorted(type for type in found if not engines_of(type)) == []


WRITTEN = sorted(index()["kernels"]["cuda"]["cuda"])
"""Operator types whose kernels have files of their own; those of formulas and of programs of rows have none."""


@pytest.mark.parametrize("type", sampled(WRITTEN, 4))
def test_a_case_of_its_family_is_taken(type: str) -> None:
    folder, _, name = find_schema(type).module.removeprefix("tazza.").rpartition(".")
    cases = [case for case in cases_in(importlib.import_module(f"tests.{folder}.test_{name}")) if case.type == type]
    if not cases:
        pytest.skip("it runs in the gradients of others, or in the cases of another file")
    refused = [run_there(case, "cuda") for case in cases[:1]]
    with backwards():
        refused += [run_there(case, "cuda") for case in cases[1:FEW]]
    assert {None, NOTHING} & {*refused}, f"no case of {type} is taken: {refused}"
