"""Kernels as functions of letters: what they are given, and what they need not refuse themselves."""

from __future__ import annotations

import pytest

from tazza.codegen.prepare import compiles, flat, named
from tazza.device import current_context
from tazza.engines.native.nn import softmax
from tazza.engines.native.shape import copy
from tazza.errors import SchemaError
from tazza.operator import KERNELS, OpView, Spec, Unsupported, find_schema, operator_def
from tazza.operator.index import load_kernel
from tazza.operator.kernel import Offered, Prepare
from tazza.ops.nn.softmax import SOFTMAX
from tazza.tensor import CPUPlace, DataType, TensorSpec


def view(type: str, inputs: list[str], outputs: list[str]) -> OpView:
    return find_schema(type).view(operator_def(type, inputs, outputs))


def asked(prepare: Prepare, type: str, dtype: DataType) -> Offered:
    spec = TensorSpec((3, 5), dtype)
    return prepare(view(type, ["x"], ["y"]), current_context(CPUPlace()), [spec], [spec])


def test_specs_by_letter() -> None:
    op = view("Concat", ["a", "b"], ["y", "told"])
    parts, Y = [TensorSpec((2, n), DataType.FLOAT) for n in (3, 4)], TensorSpec((2, 7), DataType.FLOAT)
    told = TensorSpec((2,), DataType.INT32)
    assert named(op, parts, [Y, told]) == {"X": parts, "Y": Y, "split_info": told}


def test_what_computes_in_float32_is_not_shown_other_floats() -> None:
    with pytest.raises(Unsupported, match="float32"):
        asked(softmax.prepare_softmax, "Softmax", DataType.DOUBLE)
    asked(softmax.prepare_softmax, "Softmax", DataType.FLOAT)  # is not refused


def test_text_is_refused_before() -> None:
    with pytest.raises(Unsupported, match="text"):
        asked(copy.prepare_copy, "Copy", DataType.STRING)


def test_a_letter_that_no_schema_has_is_a_mistake() -> None:
    def strange(op: OpView, Z: TensorSpec) -> Offered:
        raise Unsupported(f"{op.type} of {Z}")

    with pytest.raises(SchemaError, match="Z is no letter"):
        compiles(SOFTMAX, engine="native")(strange)


@pytest.mark.parametrize(("type", "engine"), [("Softmax", "native"), ("SpatialBN", "native/channels_last")])
def test_engines_of_kernels(type: str, engine: str) -> None:
    load_kernel((type, "cpu", engine))
    found = KERNELS[(type, "cpu", engine)]
    assert found.engine == engine
    assert found.batch_invariant == (type == "Softmax")


def test_specs_one_by_one() -> None:
    X = TensorSpec((3,), DataType.FLOAT)
    S: list[Spec] = [TensorSpec((k,), DataType.FLOAT) for k in (2, 5)]
    assert flat({"X": X, "S": S}) == [X, *S]
