"""A model with what nets of sequences ask for: parameters by a value or a filler, trainable or not."""

from __future__ import annotations

from typing import Any

from caffe2.python import scope
from caffe2.python.model_helper import ModelHelper


class Seq2SeqModelHelper(ModelHelper):
    """A `ModelHelper` whose convolutions are NHWC."""

    def __init__(self, init_params: bool = True, **kwargs: Any) -> None:
        """Start a model; `use_cudnn`, `cudnn_exhaustive_search` and `ws_nbytes_limit` go to its layers."""
        scoped: dict[str, Any] = {"order": "NHWC", "use_cudnn": kwargs.pop("use_cudnn", True)}
        scoped["cudnn_exhaustive_search"] = kwargs.pop("cudnn_exhaustive_search", False)
        if "ws_nbytes_limit" in kwargs:
            scoped["ws_nbytes_limit"] = kwargs.pop("ws_nbytes_limit")
        super().__init__(init_params=init_params, arg_scope=scoped, **kwargs)
        self.non_trainable_params: list[Any] = []

    def AddParam(
        self,
        name: str,
        init: tuple[str, dict[str, Any]] | None = None,
        init_value: Any = None,
        trainable: bool = True,
    ) -> Any:
        """Add a parameter of one value, or of a filler: its type, and its arguments.

        >>> model = Seq2SeqModelHelper(name="doc_sequences")
        >>> model.AddParam("bias", init=("ConstantFill", {"shape": [2]}), trainable=False)
        BlobReference("bias")
        >>> model.GetAllParams(), model.GetParams()
        ([BlobReference("bias")], [])
        """
        assert (init is None) != (init_value is None), "a parameter has a filler or a value"
        filler: tuple[str, dict[str, Any]] = ("ConstantFill", {"shape": [1], "value": init_value})
        kind, arguments = filler if init is None else init
        if self.init_params:
            made = getattr(self.param_init_net, kind)([], name, **arguments)
        else:
            made = self.net.AddExternalInput(name)
        (self.params if trainable else self.non_trainable_params).append(made)
        return made

    def GetNonTrainableParams(self, namescope: str | None = None) -> list[Any]:
        """Return those that are not trained, of a scope, by default the current one."""
        wanted = scope.CurrentNameScope() if namescope is None else namescope
        if wanted and not wanted.endswith("/"):
            wanted += "/"
        return [one for one in self.non_trainable_params if one.GetNameScope() == wanted or not wanted]

    def GetAllParams(self, namescope: str | None = None) -> list[Any]:
        """Return all, trained or not, of a scope, by default the current one."""
        return super().GetAllParams(namescope) + self.GetNonTrainableParams(namescope)
