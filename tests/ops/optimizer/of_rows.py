"""What holds for every update of some rows of a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.operator import find_schema, operator_def
from tests.check import run


def values(*shape: int, seed: int = 0) -> NDArray[Any]:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def results(type: str, inputs: dict[str, NDArray[Any]], outputs: list[str], **arguments: Any) -> list[Any]:
    """Return what an operator makes; names that stand on both sides are overwritten."""
    op = operator_def(type, list(inputs), outputs, **arguments)
    return list(run(op, [value.copy() for value in inputs.values()])[0])


def check_rows(sparse: str, dense: str, **arguments: Any) -> None:
    """Check that every row is updated as a parameter of its own, by the operator for whole parameters."""
    of_rows, whole = find_schema(sparse), find_schema(dense)
    kept = {str(places[0]): out for out, places in of_rows.must_in_place.items()}
    rows = np.array([4, 0, 4, 6])
    given = {name: values(7, 3, seed=number) ** 2 + 1 for number, name in enumerate(kept)}
    given |= {"indices": rows, "dW": values(4, 3, seed=9), "lr": np.array([0.3], np.float32), "iter": np.array([6])}
    over = {out: letter for letter, out in kept.items()}
    definition = operator_def(
        sparse,
        list(of_rows.inputs_by_letter),
        [over.get(letter, f"new_{letter}") for letter in of_rows.outputs_by_letter],
        **arguments,
    )
    results, _ = run(definition, [np.array(given[letter]) for letter in of_rows.inputs_by_letter])
    found = dict(zip(definition.output, results, strict=True))
    wanted = {letter: given[letter].copy() for letter in kept}
    for place, row in enumerate(rows):
        now = given | {letter: wanted[letter][row] for letter in kept} | {"dW": given["dW"][place]}
        letters = list(of_rows.outputs_by_letter)
        one = operator_def(dense, list(whole.inputs_by_letter), letters, **arguments)
        made, _ = run(one, [np.array(now[letter]) for letter in whole.inputs_by_letter])
        for letter, value in zip(letters, made, strict=True):
            if letter in over:
                wanted[over[letter]][row] = value
            else:
                np.testing.assert_allclose(found[f"new_{letter}"][place], value, rtol=1e-6, atol=1e-7)
    for letter in kept:
        np.testing.assert_allclose(found[letter], wanted[letter], rtol=1e-6, atol=1e-7)
