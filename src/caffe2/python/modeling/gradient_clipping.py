"""Gradients that are kept small: by their norm, or element by element."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from caffe2.proto import caffe2_pb2
from caffe2.python import core
from caffe2.python._optimizer_build import get_param_device
from caffe2.python.modeling.net_modifier import NetModifier


class GradientClipping(NetModifier):
    """Adds operators that clip gradients in place."""

    L1_NORM = "l1_norm"
    L2_NORM = "l2_norm"
    BY_NORM = "by_norm"
    BY_VALUE = "by_value"
    GRAD_CLIP_METHODS: ClassVar[list[str]] = [BY_NORM, BY_VALUE]
    CLIP_GRADIENT_NORM_TYPES: ClassVar[list[str]] = [L2_NORM, L1_NORM]

    def __init__(
        self,
        grad_clip_method: str,
        clip_norm_type: str = "l2_norm",
        clip_threshold: float = 0.1,
        use_parameter_norm: bool = False,
        compute_norm_ratio: bool = False,
        clip_max: float = 1,
        clip_min: float = -1,
        blobs_to_include: Sequence[str] | None = None,
        blobs_to_exclude: Sequence[str] | None = None,
    ) -> None:
        """Say how to clip.

        Args:
            grad_clip_method: `by_norm`, or `by_value`.
            clip_norm_type: of the former: `l1_norm` or `l2_norm`.
            clip_threshold: of the former: the largest norm.
            use_parameter_norm: it is the largest share of the norm of the parameter.
            compute_norm_ratio: keep that share in `<parameter>_norm_ratio`.
            clip_max: of `by_value`: the largest element.
            clip_min: the smallest.
            blobs_to_include: whose gradients are clipped; all by default.
            blobs_to_exclude: whose are not.
        """
        assert grad_clip_method in self.GRAD_CLIP_METHODS, (
            f"This method of clipping, {clip_norm_type}, has not been implemented."
        )
        if clip_norm_type is not None:  # pyright: ignore[reportUnnecessaryComparison]
            assert clip_norm_type in self.CLIP_GRADIENT_NORM_TYPES, (
                f"This method of clipping, {clip_norm_type}, has not been implemented."
            )
        self.grad_clip_method = grad_clip_method
        self.clip_norm_type = clip_norm_type
        self.clip_threshold = float(clip_threshold)
        self.use_parameter_norm = use_parameter_norm
        self.compute_norm_ratio = compute_norm_ratio
        self.clip_max = float(clip_max)
        self.clip_min = float(clip_min)
        self.blobs_to_include = blobs_to_include
        self.blobs_to_exclude = blobs_to_exclude

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Any = None,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """Add the operators."""
        assert grad_map is not None
        cpu = core.DeviceOption(caffe2_pb2.CPU)
        for param, grad in self._chosen(net, grad_map).items():
            with core.DeviceScope(get_param_device(str(param), grad, blob_to_device or {}, cpu)):
                if self.grad_clip_method == self.BY_NORM:
                    self._by_norm(net, param, grad)
                else:
                    net.Clip([grad], [grad], max=self.clip_max, min=self.clip_min)

    def _chosen(self, net: Any, grad_map: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the gradients that are clipped: of whole blobs."""
        wanted = [core.BlobReference(str(name)) for name in self.blobs_to_include or grad_map]
        for param in wanted:
            if str(param) not in grad_map:
                raise Exception(f"param {param} is not defined in net {net.Name()}")
        excluded = self.blobs_to_exclude or ()
        found = {param: grad_map[str(param)] for param in wanted if str(param) not in excluded}
        return {param: grad for param, grad in found.items() if not isinstance(grad, core.GradientSlice)}

    def _by_norm(self, net: Any, param: Any, grad: Any) -> None:
        norms = [self._norm(net, grad)]
        if self.use_parameter_norm:
            norms.append(self._norm(net, param))
            if self.compute_norm_ratio:
                net.Div(norms, net.NextScopedBlob(prefix=str(param) + "_norm_ratio"))
        net.ClipTensorByScaling([grad, *norms], [grad], threshold=self.clip_threshold)

    def _norm(self, net: Any, blob: Any) -> Any:
        p = 2 if self.clip_norm_type == self.L2_NORM else 1
        norm = net.LpNorm(blob, net.NextScopedBlob(prefix=f"{blob}_l{p}_norm"), p=p)
        return net.Pow([norm], exponent=0.5) if p == 2 else norm
