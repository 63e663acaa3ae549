"""Products with matrices of parameters."""

from __future__ import annotations

from typing import Any

from caffe2.python.helpers._given import BIAS, COMPUTED, WEIGHT, Fill, blob_of
from caffe2.python.modeling import initializers


def fc(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Multiply rows of `dim_in` by a matrix, and add a bias: rows of `dim_out`."""
    return _FC_or_packed_FC(model, model.net.FC, *args, **kwargs)


def packed_fc(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Multiply by a packed matrix."""
    return _FC_or_packed_FC(model, model.net.PackedFC, *args, **kwargs)


def _FC_or_packed_FC(
    model: Any,
    op_call: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    WeightInitializer: Any = None,
    BiasInitializer: Any = None,
    enable_tensor_core: bool = False,
    float16_compute: bool = False,
    **kwargs: Any,
) -> Any:
    makes_weight = initializers.update_initializer(WeightInitializer, weight_init, ("XavierFill", {}))
    makes_bias = initializers.update_initializer(BiasInitializer, bias_init, ("ConstantFill", {}))
    if not model.init_params:
        makes_weight = makes_bias = initializers.ExternalInitializer()
    blob_out = blob_out or model.net.NextName()
    weight = model.create_param(blob_out + "_w", [dim_out, dim_in], makes_weight, tags=WEIGHT)
    tags = [BIAS, COMPUTED] if "freeze_bias" in kwargs else BIAS
    bias = model.create_param(blob_out + "_b", [dim_out], makes_bias, tags=tags)
    if enable_tensor_core:
        kwargs["engine"] = "TENSORCORE"
    if float16_compute:
        kwargs["float16_compute"] = True
    return op_call([blob_in, weight, bias], blob_out, **kwargs)


def fc_decomp(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    rank_approx: int = 5,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    WeightInitializer: Any = None,
    BiasInitializer: Any = None,
    **kwargs: Any,
) -> Any:
    """Multiply by the product of two matrices of a low rank."""
    makes_weight = initializers.update_initializer(WeightInitializer, weight_init, ("XavierFill", {}))
    makes_bias = initializers.update_initializer(BiasInitializer, bias_init, ("ConstantFill", {}))
    blob_out = blob_out or model.net.NextName()
    u = model.create_param(blob_out + "_u", [dim_out, rank_approx], makes_weight)
    v = model.create_param(blob_out + "_v", [dim_in, rank_approx], makes_weight)
    bias = model.create_param(blob_out + "_b", [dim_out], makes_bias)
    return model.net.FC_Decomp([blob_in, u, v, bias], blob_out, **kwargs)


def fc_prune(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    mask_init: Fill | None = None,
    threshold: float = 0.00001,
    need_compress_rate: bool = False,
    comp_lb: float = 0.05,
    **kwargs: Any,
) -> Any:
    """Multiply by a matrix of which what is small is pruned while it trains."""
    weight_fill, bias_fill = weight_init or ("XavierFill", {}), bias_init or ("ConstantFill", {})
    mask_fill = mask_init or ("ConstantFill", {})
    blob_out = blob_out or model.net.NextName()
    shape = [dim_out, dim_in]
    fills: dict[str, tuple[Any, Fill]] = {
        "_lb": ([1], ("ConstantFill", {"value": comp_lb})),
        "_w": (shape, weight_fill),
        "_m": (shape, ("ConstantFill", {"value": 1.0})),
        "_ag_dw": (shape, mask_fill),
        "_b": ([dim_out], bias_fill),
        "_mask_seq": (shape, mask_fill),
        "_thres": ([1], ("ConstantFill", {"value": threshold})),
    }
    made = {end: blob_of(model, blob_out + end, *given) for end, given in fills.items()}
    model.AddParameter(made["_w"])
    model.AddParameter(made["_b"])
    order = ("_w", "_m", "_b", "_ag_dw", "_mask_seq", "_thres", "_lb")
    outputs = [blob_out, blob_out + "_compress_rate"] if need_compress_rate else blob_out
    return model.net.FC_Prune([blob_in, *(made[end] for end in order)], outputs, **kwargs)


def fc_sparse(model: Any, blob_in: Any, blob_out: Any, w_csr: Any, iw: Any, jw: Any, bias: Any, **kwargs: Any) -> Any:
    """Multiply by a matrix of compressed rows."""
    for param in (w_csr, iw, jw, bias):
        model.AddParameter(param)
    return model.net.FC_Sparse([blob_in, w_csr, iw, jw, bias], blob_out, **kwargs)
