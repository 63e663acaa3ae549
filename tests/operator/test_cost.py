"""What takes blobs of any kind, the rule of cost takes too; of nets within, `test_step_cost.py` speaks."""

from __future__ import annotations

import pytest

from tazza.operator import SCHEMAS, Cost, OpSchema, operator_def
from tazza.tensor import TypeSpec


def takes_anything(schema: OpSchema) -> bool:
    """Whether an input may hold what is no tensor, and nothing but inputs must be given."""
    return any(spec.type_name == "*" for spec in schema.inputs) and not any(a.required for a in schema.args.values())


@pytest.mark.parametrize("type", sorted(name for name in SCHEMAS if takes_anything(SCHEMAS[name])))
def test_what_is_no_tensor_has_a_cost(type: str) -> None:
    schema = SCHEMAS[type]
    op = schema.typed_view(operator_def(type, [x.name for x in schema.inputs], [y.name for y in schema.outputs]))
    inputs, outputs = ([TypeSpec("std::string") for _ in letters] for letters in (schema.inputs, schema.outputs))
    assert isinstance(schema.infer_cost(op, inputs, outputs), Cost)
