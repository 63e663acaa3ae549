"""Sums, products and transposes."""

from __future__ import annotations

from typing import Any

from caffe2.python.helpers._given import with_engine


def transpose(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """Change the order of dimensions, by `axes`."""
    return model.net.Transpose(blob_in, blob_out, **with_engine(use_cudnn, kwargs))


def sum(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Add blobs."""
    return model.net.Sum(blob_in, blob_out, **kwargs)


def reduce_sum(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Sum over `axes`."""
    return model.net.ReduceSum(blob_in, blob_out, **kwargs)


def sub(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Subtract the second from the first."""
    return model.net.Sub(blob_in, blob_out, **kwargs)


def mat_mul(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Multiply two matrices."""
    return model.net.MatMul(blob_in, blob_out, **kwargs)


def arg_min(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Find where the smallest is."""
    return model.net.ArgMin(blob_in, blob_out, **kwargs)


def batch_mat_mul(model: Any, blob_in: Any, blob_out: Any, enable_tensor_core: bool = False, **kwargs: Any) -> Any:
    """Multiply two stacks of matrices."""
    engine = {"engine": "TENSORCORE"} if enable_tensor_core else {}
    return model.net.BatchMatMul(blob_in, blob_out, **{**kwargs, **engine})


def sparse_lengths_sum_4bit_rowwise_sparse(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Sum rows of a table that keeps four bits for each element."""
    return model.net.SparseLengthsSum4BitRowwiseSparse(blob_in, blob_out, **kwargs)
