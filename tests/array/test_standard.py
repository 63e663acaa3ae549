"""The namespace of the array-API standard: every name is there, with the parameters that the standard gives it."""

from __future__ import annotations

import doctest
import inspect
import math
import re
from pathlib import Path

import pytest

import tazza.array as ta
from tazza.errors import ArgumentError, DTypeError, ShapeError, UnavailableError

FUNCTIONS = """
__array_namespace_info__() all(x,axis,keepdims) any(x,axis,keepdims) arange(start,stop,step,dtype,device)
argmax(x,axis,keepdims) argmin(x,axis,keepdims) argsort(x,axis,descending,stable) asarray(obj,dtype,device,copy)
astype(x,dtype,copy,device) broadcast_arrays(arrays) broadcast_to(x,shape) can_cast(from_,to) clip(x,min,max)
concat(arrays,axis) count_nonzero(x,axis,keepdims) cumulative_prod(x,axis,dtype,include_initial)
cumulative_sum(x,axis,dtype,include_initial) diff(x,axis,n,prepend,append) empty(shape,dtype,device)
empty_like(x,dtype,device) expand_dims(x,axis) eye(n_rows,n_cols,k,dtype,device) finfo(type) flip(x,axis)
from_dlpack(x,device,copy) full(shape,fill_value,dtype,device) full_like(x,fill_value,dtype,device) iinfo(type)
isdtype(dtype,kind) linspace(start,stop,num,dtype,device,endpoint) matmul(x1,x2) matrix_transpose(x)
max(x,axis,keepdims) mean(x,axis,keepdims) meshgrid(arrays,indexing) min(x,axis,keepdims)
moveaxis(x,source,destination) nonzero(x) ones(shape,dtype,device) ones_like(x,dtype,device) permute_dims(x,axes)
prod(x,axis,dtype,keepdims) repeat(x,repeats,axis) reshape(x,shape,copy) result_type(operands) roll(x,shift,axis)
searchsorted(x1,x2,side,sorter) sort(x,axis,descending,stable) squeeze(x,axis) stack(arrays,axis)
std(x,axis,correction,keepdims) sum(x,axis,dtype,keepdims) take(x,indices,axis) take_along_axis(x,indices,axis)
tensordot(x1,x2,axes) tile(x,repetitions) tril(x,k) triu(x,k) unique_all(x) unique_counts(x) unique_inverse(x)
unique_values(x) unstack(x,axis) var(x,axis,correction,keepdims) vecdot(x1,x2,axis) where(condition,x,y)
zeros(shape,dtype,device) zeros_like(x,dtype,device)
""".split()
"""Functions of the standard of more than elements, with their parameters; first ones are positional only."""

ELEMENTWISE = """
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or
bitwise_right_shift bitwise_xor ceil conj copysign cos cosh divide equal exp expm1 floor floor_divide greater
greater_equal hypot isfinite isinf isnan less less_equal log log10 log1p log2 logaddexp logical_and logical_not
logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real reciprocal remainder
round sign signbit sin sinh sqrt square subtract tan tanh trunc
""".split()


@pytest.mark.parametrize("form", FUNCTIONS)
def test_signatures(form: str) -> None:
    name, _, parameters = form.partition("(")
    found = inspect.signature(getattr(ta, name)).parameters
    assert ",".join(list(found)) == parameters[:-1]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions(name: str) -> None:
    kinds = {one.kind for one in inspect.signature(getattr(ta, name)).parameters.values()}
    assert kinds == {inspect.Parameter.POSITIONAL_ONLY}


def test_types_and_constants() -> None:
    assert (ta.e, ta.pi, ta.inf, ta.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(ta.nan)
    assert ta.float32 == ta.DataType.FLOAT
    assert ta.iinfo(ta.ones(1, dtype=ta.uint8)).max == 255
    assert (ta.finfo("float16").max, ta.finfo(ta.bfloat16).bits) == (65504, 16)
    assert ta.isdtype(ta.bfloat16, "real floating")
    assert ta.isdtype("int8", ("bool", "numeric"))
    assert not ta.isdtype(ta.bool, "numeric")
    assert ta.can_cast(ta.ones(1, dtype="uint8"), ta.int16)
    assert not ta.can_cast(ta.string, ta.int16)
    for wrong, error in [(lambda: ta.finfo(ta.bool), DTypeError), (lambda: ta.iinfo("float32"), DTypeError)]:
        with pytest.raises(error):
            wrong()
    with pytest.raises(ArgumentError, match="unknown kind 'real'"):
        ta.isdtype(ta.float32, "real")


def test_namespace() -> None:
    x = ta.ones(1)
    assert x.__array_namespace__() is ta
    assert x.__array_namespace__(api_version="2023.12") is ta
    assert ta.__array_api_version__ == "2024.12"
    with pytest.raises(ArgumentError, match="version '1999'"):
        x.__array_namespace__(api_version="1999")
    info = ta.__array_namespace_info__()
    assert info.default_device() in info.devices()
    assert set(info.dtypes(kind="unsigned integer")) == {"uint8", "uint16"}
    assert set(info.default_dtypes()) == {"real floating", "integral", "indexing"}
    assert info.dtypes()["bool"] is ta.bool
    assert set(info.dtypes()) == {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "float32", "float64"}
    assert info.capabilities()["data-dependent shapes"] is True
    rank = info.capabilities()["max dimensions"]
    assert isinstance(rank, int)
    assert (ta.ones((1,) * rank) + 1).ndim == rank
    with pytest.raises(ShapeError):
        ta.ones((1,) * (rank + 1))
    assert (x.device, x.ndim, x.size) == (ta.CPUPlace(), 1, 1)


def test_copies_between_places_of_devices() -> None:
    def copy(source: ta.Tensor, target: ta.Tensor) -> None:
        assert (source.place.kind, target.place) == ("cpu", ta.CUDAPlace(1))

    brought = ta.COPIERS.get(("cpu", "cuda"))  # by tazza.device.cuda, where something imported that
    if brought is not None:
        ta.COPIERS.unregister(("cpu", "cuda"))
    ta.COPIERS.register(("cpu", "cuda"), copy)
    try:
        assert ta.ones((2, 3)).to_device("cuda:1").place == ta.CUDAPlace(1)
    finally:
        ta.COPIERS.unregister(("cpu", "cuda"))
        if brought is not None:
            ta.COPIERS.register(("cpu", "cuda"), brought)


def test_copies_to_places_that_are_not_here() -> None:
    with pytest.raises(UnavailableError):
        ta.zeros(3).to_device("cuda:7")


def test_the_namespace_itself() -> None:
    assert {"Array", "zeros", "lazy", "matmul", "serialize"} <= set(dir(ta))
    assert ta.Array is ta.Tensor
    assert [name for name in dir(ta) if not hasattr(ta, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'zeroes'"):
        _ = ta.zeroes  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def test_the_page_says_what_is_there() -> None:
    page = Path(__file__).parents[2] / "docs" / "tensor" / "standard.md"
    found = doctest.testfile(str(page), module_relative=False)
    assert (found.failed, found.attempted > 5) == (0, True)
    rows = re.findall(
        r"^\| (`[^|]*) \|", page.read_text(encoding="utf-8").split("## What is left out")[1], re.MULTILINE
    )
    left_out = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert left_out
    assert [name for name in left_out if hasattr(ta, name)] == []


def test_what_the_suite_skips_is_what_is_left_out() -> None:
    skips = Path(__file__).with_name("array_api_skips.txt").read_text().splitlines()
    page = (Path(__file__).parents[2] / "docs" / "tensor" / "standard.md").read_text(encoding="utf-8")
    skipped = {name for line in skips if line and line[0] != "#" for name in re.findall(r"\w+", line)}
    left_out = page.split("## What is left out")[1]
    assert {name.removeprefix("test_") for name in skipped} <= set(re.findall(r"`(\w+)`", left_out))
