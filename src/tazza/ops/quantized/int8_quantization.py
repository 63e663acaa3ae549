"""Scale and zero point from numbers: Int8QuantSchemeBlobFill says how, Int8GenQuantParams finds them in a tensor.

Only the way from the least number to the largest is there (`MIN_MAX_QUANTIZATION`): what operators on bytes make of
their results is said by arguments, and nothing reads what was found but people and those who write these arguments.
"""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.errors import ShapeError
from tazza.operator import FLOAT, Effects, OpView, Role, arg, blob, host_kernel, schema
from tazza.ops.quantized.scale import NO_GRADIENT, reaching
from tazza.tensor import Blob, PerTensor, Tensor
from tazza.tensor.blob import blob_type

SCHEME = "std::unique_ptr<caffe2::Int8QuantSchemeBlob>"
PARAMS = "std::unique_ptr<caffe2::Int8QuantParamsBlob>"
MIN_MAX = "MIN_MAX_QUANTIZATION"


@blob_type(SCHEME)
@dataclass(frozen=True, slots=True)
class QuantScheme:
    """How scale and zero point are found; `preserve_sparsity`: with the byte 128 for 0 where signs differ."""

    kind: str
    preserve_sparsity: bool


@blob_type(PARAMS)
@dataclass(frozen=True, slots=True)
class QuantParams:
    """What bytes mean that stand for the numbers of a tensor."""

    meaning: PerTensor


INT8_QUANT_SCHEME_BLOB_FILL = schema(
    "Int8QuantSchemeBlobFill",
    "quant_scheme = the way in which Int8GenQuantParams is to find scale and zero point.",
    outputs=[blob("quant_scheme", type_name=SCHEME)],
    args=[
        arg("quantization_kind", str, MIN_MAX, choices=(MIN_MAX,), doc="from the least number to the largest"),
        arg("preserve_sparsity", bool, False, doc="where signs differ, the byte 128 is 0"),
    ],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Int8QuantSchemeBlobFill")
    QuantScheme(kind='MIN_MAX_QUANTIZATION', preserve_sparsity=False)
    """,
)


@host_kernel(INT8_QUANT_SCHEME_BLOB_FILL)
def int8_quant_scheme_blob_fill(op: OpView, quant_scheme: Blob) -> None:
    quant_scheme.set(QuantScheme(op.quantization_kind, op.preserve_sparsity))


INT8_GEN_QUANT_PARAMS = schema(
    "Int8GenQuantParams",
    "quant_param = the scale and zero point of bytes that reach from the least number in X to the largest.",
    inputs=[blob("X", FLOAT), blob("quant_scheme", type_name=SCHEME, role=Role.STATE)],
    outputs=[blob("quant_param", type_name=PARAMS)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Jacob and others 2018, arXiv 1712.05877, section 3; Caffe2",
    example="""
    >>> scheme = run("Int8QuantSchemeBlobFill")
    >>> print(run("Int8GenQuantParams", [-1.0, 0.0, 1.55], scheme).meaning)
    scale 0.01, zero point 100
    """,
)


@host_kernel(INT8_GEN_QUANT_PARAMS)
def int8_gen_quant_params(op: OpView, X: Blob, quant_scheme: Blob, quant_param: Blob) -> None:
    numbers, scheme = X.get(Tensor).plain(), quant_scheme.get(QuantScheme)
    if not numbers.size:
        raise op.error(ShapeError, f"X = {X.name!r} has no elements {numbers.shape}", "a scale needs numbers")
    quant_param.set(QuantParams(reaching(op, "X", numbers, symmetric=scheme.preserve_sparsity)))
