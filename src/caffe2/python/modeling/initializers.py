"""What parameters start from: a fill operator and its arguments, in float32 or beside a copy in float16."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2.python.core import BlobReference, DataType, ScopedBlobReference
from caffe2.python.modeling.parameter_info import ParameterInfo


class Initializer:
    """Fills in float32."""

    def __init__(self, operator_name: str | None = None, **kwargs: Any) -> None:
        """Take the fill operator, which may be given later, and its arguments."""
        self.operator_name = operator_name
        self.operator_kwargs = kwargs

    def update(self, operator_name: str, kwargs: dict[str, Any]) -> None:
        """Give the operator, once."""
        if self.operator_name is not None:
            raise Exception("Operator name overwrites are not allowed")
        self.operator_name = operator_name
        self.operator_kwargs = kwargs

    def _fill(self, name: Any, init_net: Any, shape: Sequence[int]) -> Any:
        return getattr(init_net, str(self.operator_name))([], name, shape=shape, **self.operator_kwargs)

    def create_param(self, param_name: Any, init_net: Any, shape: Sequence[int]) -> ParameterInfo:
        """Add the fill to a net."""
        return ParameterInfo(param_id=None, param=self._fill(param_name, init_net, shape), shape=shape)


class ExternalInitializer:
    """The parameter comes from outside."""

    def create_param(self, param_name: Any, init_net: Any, shape: Sequence[int]) -> ParameterInfo:
        """Refer to the blob; a text gets the current scope in front."""
        if isinstance(param_name, BlobReference):
            param = BlobReference(str(param_name), init_net)
        elif isinstance(param_name, str):
            param = ScopedBlobReference(param_name, init_net)
        else:
            raise TypeError("Unsupported type for param_name")
        return ParameterInfo(param_id=None, param=param, shape=shape)


class PseudoFP16Initializer(Initializer):
    """Fills `<name>_fp32`, and makes the parameter of it, in float16."""

    def update(self, operator_name: str, kwargs: dict[str, Any]) -> None:
        """Give the operator, once."""
        super().update(operator_name, kwargs)

    def create_param(self, param_name: Any, init_net: Any, shape: Sequence[int]) -> ParameterInfo:
        """Add the fill and the conversion to a net."""
        filled = self._fill(param_name + "_fp32", init_net, shape)
        param = init_net.FloatToHalf(filled, param_name)
        return ParameterInfo(param_id=None, param=param, shape=shape, blob_copy={DataType.FLOAT: filled})


class ReversePseudoFP16Initializer(Initializer):
    """Fills the parameter in float32, and makes `<name>_fp16` of it."""

    def update(self, operator_name: str, kwargs: dict[str, Any]) -> None:
        """Give the operator, once."""
        super().update(operator_name, kwargs)

    def create_param(self, param_name: Any, init_net: Any, shape: Sequence[int]) -> ParameterInfo:
        """Add the fill and the conversion to a net."""
        param = self._fill(param_name, init_net, shape)
        half = init_net.FloatToHalf(param, param_name + "_fp16")
        return ParameterInfo(param_id=None, param=param, shape=shape, blob_copy={DataType.FLOAT16: half})


pFP16Initializer = PseudoFP16Initializer
"""What it was called before 1.0."""


def update_initializer(
    initializer_class: Any,
    operator_name_and_kwargs: tuple[str, dict[str, Any]] | None,
    default_operator_name_and_kwargs: tuple[str, dict[str, Any]],
) -> Any:
    """Return an initializer of a class, float32 by default, with an operator, or the default one.

    Raises:
        TypeError: `initializer_class` is an object; classes are wanted.
    """
    given = operator_name_and_kwargs if operator_name_and_kwargs else default_operator_name_and_kwargs
    made = (initializer_class if initializer_class else Initializer)()
    made.update(given[0], given[1])
    return made
