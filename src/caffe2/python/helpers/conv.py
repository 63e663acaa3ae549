"""Convolutions."""

from __future__ import annotations

from typing import Any

from caffe2.python.helpers._given import BIAS, WEIGHT, Fill, filled, searching
from caffe2.python.modeling import initializers


def _ConvBase(
    model: Any,
    is_nd: bool,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    WeightInitializer: Any = None,
    BiasInitializer: Any = None,
    group: int = 1,
    transform_inputs: Any = None,
    use_cudnn: bool = False,
    order: str = "NCHW",
    cudnn_exhaustive_search: bool = False,
    ws_nbytes_limit: int | None = None,
    float16_compute: bool = False,
    **kwargs: Any,
) -> Any:
    kernels = _kernels(is_nd, kernel)
    _check_engine(use_cudnn, kwargs.get("engine"))
    kwargs = searching(use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit, kwargs)
    use_bias = not kwargs.pop("no_bias", False)
    blob_out = blob_out or model.net.NextName()
    makes_weight = initializers.update_initializer(WeightInitializer, weight_init, ("XavierFill", {}))
    makes_bias = initializers.update_initializer(BiasInitializer, bias_init, ("ConstantFill", {}))
    if not model.init_params:
        makes_weight = makes_bias = initializers.ExternalInitializer()
    channels = [dim_in // group]
    shape = [dim_out, *channels, *kernels] if order == "NCHW" else [dim_out, *kernels, *channels]
    inputs = [blob_in, model.create_param(blob_out + "_w", shape, makes_weight, tags=WEIGHT)]
    if use_bias:
        inputs.append(model.create_param(blob_out + "_b", [dim_out], makes_bias, tags=BIAS))
    if transform_inputs is not None:
        transform_inputs(model, blob_out, inputs)
    if float16_compute:
        kwargs["float16_compute"] = True
    if group != 1:
        kwargs["group"] = group
    return model.net.Conv(inputs, blob_out, **_kernel_arguments(is_nd, kernels), order=order, **kwargs)


def _kernels(is_nd: bool, kernel: Any) -> list[int]:
    if is_nd:
        return kernel if isinstance(kernel, list) else [kernel]  # pyright: ignore[reportUnknownVariableType] -- of anything
    if isinstance(kernel, list):
        assert len(kernel) == 2, "Conv support only a 2D kernel."  # pyright: ignore[reportUnknownArgumentType]
        return kernel  # pyright: ignore[reportUnknownVariableType]
    return [kernel] * 2


def _kernel_arguments(is_nd: bool, kernels: list[int]) -> dict[str, Any]:
    if is_nd:
        return {"kernels": kernels}
    if kernels[0] == kernels[1]:
        return {"kernel": kernels[0]}
    return {"kernel_h": kernels[0], "kernel_w": kernels[1]}


def _check_engine(use_cudnn: bool, engine: str | None) -> None:
    if engine is None:
        return
    if use_cudnn and engine != "CUDNN":
        raise ValueError('When use_cudnn=True, the only engine you can specify is "CUDNN"')
    if not use_cudnn and engine == "CUDNN":
        raise ValueError('When use_cudnn=False, the only engine you can specify is ""')


def conv_nd(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    WeightInitializer: Any = None,
    BiasInitializer: Any = None,
    group: int = 1,
    transform_inputs: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Convolve over as many dimensions as `kernel` has extents."""
    assert order == "NCHW", "ConvNd only supported for NCHW storage."
    makers = (weight_init, bias_init, WeightInitializer, BiasInitializer, group, transform_inputs)
    return _ConvBase(model, True, blob_in, blob_out, dim_in, dim_out, kernel, *makers, order=order, **kwargs)


def conv(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    WeightInitializer: Any = None,
    BiasInitializer: Any = None,
    group: int = 1,
    transform_inputs: Any = None,
    **kwargs: Any,
) -> Any:
    """Convolve over two dimensions; `kernel` is a number or a list of two."""
    makers = (weight_init, bias_init, WeightInitializer, BiasInitializer, group, transform_inputs)
    return _ConvBase(model, False, blob_in, blob_out, dim_in, dim_out, kernel, *makers, **kwargs)


def conv_transpose(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    use_cudnn: bool = False,
    order: str = "NCHW",
    cudnn_exhaustive_search: bool = False,
    ws_nbytes_limit: int | None = None,
    **kwargs: Any,
) -> Any:
    """Convolve backwards: the gradient of a convolution as a layer."""
    blob_out = blob_out or model.net.NextName()
    shape = [dim_in, dim_out, kernel, kernel] if order == "NCHW" else [dim_in, kernel, kernel, dim_out]
    weight = filled(model, blob_out + "_w", shape, weight_init or ("XavierFill", {}), WEIGHT)
    bias = filled(model, blob_out + "_b", [dim_out], bias_init or ("ConstantFill", {}), BIAS)
    kwargs = searching(use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit, kwargs)
    return model.net.ConvTranspose([blob_in, weight, bias], blob_out, kernel=kernel, order=order, **kwargs)


def group_conv(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    group: int = 1,
    **kwargs: Any,
) -> Any:
    """Convolve in groups."""
    fills = (weight_init, bias_init)
    return conv(model, blob_in, blob_out, dim_in, dim_out, kernel, *fills, group=group, **kwargs)


def group_conv_deprecated(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    kernel: Any,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    group: int = 1,
    use_cudnn: bool = False,
    order: str = "NCHW",
    cudnn_exhaustive_search: bool = False,
    ws_nbytes_limit: int | None = None,
    **kwargs: Any,
) -> Any:
    """Split the channels, convolve each group by an operator of its own, and join the results."""
    if dim_out % group:
        raise ValueError("dim_out should be divisible by group.")
    kwargs = searching(use_cudnn, cudnn_exhaustive_search, ws_nbytes_limit, kwargs)
    use_bias = not kwargs.pop("no_bias", False)
    each_in, each_out = dim_in // group, dim_out // group
    shape = [each_out, each_in, kernel, kernel] if order == "NCHW" else [each_out, kernel, kernel, each_in]
    parts = ["_" + blob_out + f"_gconv_split_{count}" for count in range(group)]  # a reference stays one
    split = model.net.DepthSplit(blob_in, parts, dimensions=[each_in] * group, order=order)
    made: list[Any] = []
    for count, part in enumerate(split):
        name = blob_out + f"_gconv_{count}"
        inputs = [part, filled(model, name + "_w", shape, weight_init or ("XavierFill", {}), WEIGHT)]
        if use_bias:
            inputs.append(filled(model, name + "_b", [each_out], bias_init or ("ConstantFill", {}), BIAS))
        made.append(model.net.Conv(inputs, name, kernel=kernel, order=order, **kwargs))
    return model.net.Concat(made, [blob_out, "_" + blob_out + "_concat_dims"], order=order)[0]
