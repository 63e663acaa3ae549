"""Gradients of operators and nets beside central differences."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from caffe2.python import core, net_drawer, workspace
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.tensor import DataType

Array = NDArray[Any]
ENDS = 3
"""So many elements at either end of an input are looked at, unless CAFFE2_FULL_GRAD_CHECK is 1."""


def getGradientForOp(op: OperatorDef) -> tuple[list[OperatorDef], list[Any]]:
    """Return the gradient operators, and the gradients of the inputs, where those of outputs end in `_grad`."""
    return core.GradientRegistry.GetGradientForOp(op, [f"{name}_grad" for name in op.output])


def _dense(gradient: Any, like: Any) -> Array:
    """Return a gradient; one of rows as of all rows of a blob."""
    if isinstance(gradient, core.GradientSlice):
        made = "tmp_dense_grad"
        inputs = [gradient.indices, gradient.values, like]
        workspace.RunOperatorOnce(core.CreateOperator("SparseToDense", inputs, made))
        return workspace.blobs[made]
    assert isinstance(gradient, core.BlobReference)
    return workspace.blobs[gradient]


def _assert_close(value1: Array, value2: Array, threshold: float, err_msg: str = "") -> tuple[float, float]:
    """Return by how much two arrays differ, on average and at most."""
    np.testing.assert_allclose(value1, value2, atol=threshold, rtol=threshold, err_msg=err_msg)
    apart = np.abs(value1 - value2)
    return np.mean(apart), np.max(apart)  # pyright: ignore[reportReturnType] -- numbers of NumPy


def _draw(nets: Iterable[Any], prefix: str) -> None:
    for number, net in enumerate(nets):
        name = f"caffe2_net_{prefix}{number}{net.Name()}.png"
        Path(name).write_bytes(net_drawer.GetPydotGraph(net).create_png())


class NetGradientChecker:
    """Gradients of nets."""

    @staticmethod
    def _run(
        net: Any, outputs: Iterable[Any], given: Sequence[Any], inputs: Mapping[str, Any] | None, wanted: Iterable[Any]
    ) -> tuple[list[tuple[Any, Array]], dict[Any, Array], Any]:
        """Run a net and its backward pass; return outputs, gradients of inputs, and the net with both passes."""
        both = net.Clone(f"{net.Name()}_copy")
        gradients = both.AddGradientOperators(given)
        for name, value in () if inputs is None else inputs.items():
            workspace.blobs[name] = value
        for name in wanted:
            assert name in gradients, f"{name} has no gradient, cannot check net gradient."
            assert str(name) in workspace.blobs
        workspace.RunNetOnce(both)
        found = {name: _dense(gradients[name], name) for name in wanted}
        return [(output, workspace.blobs[output]) for output in outputs], found, both

    @staticmethod
    def CompareNets(
        nets: Sequence[Any],
        outputs: Sequence[Sequence[Any]],
        outputs_with_grad_ids: Sequence[int],
        inputs_with_grads: Sequence[Any],
        input_values: Mapping[str, Any] | None = None,
        threshold: float = 0.0000001,
        print_net_images: bool = False,
    ) -> None:
        """Assert that nets give the same outputs, and the same gradients of inputs."""
        if print_net_images:
            _draw(nets, "forward_")
        runs = [
            NetGradientChecker._run(
                net, own, [own[position] for position in outputs_with_grad_ids], input_values, inputs_with_grads
            )
            for net, own in zip(nets, outputs, strict=False)
        ]
        if print_net_images:
            _draw([both for _, _, both in runs], "")
        first_values, first_gradients, _ = runs[0]
        for values, gradients, _ in runs[1:]:
            pairs = zip(first_values, values, strict=True)
            for position, ((first_name, first), (name, value)) in enumerate(pairs):
                told = f"Different forward pass results for output id {position}: of blobs {first_name} and {name}"
                _assert_close(first, value, threshold, told)
            assert gradients.keys() == first_gradients.keys()
            for name, value in gradients.items():
                _assert_close(first_gradients[name], value, threshold, f"Different gradients for input {name}")

    @staticmethod
    def Check(
        net: Any,
        outputs_with_grad: Sequence[Any],
        input_values: Mapping[str, Any],
        input_to_check: Any,
        step_size: float = 0.0001,
        threshold: float = 0.05,
        print_net: bool = True,
    ) -> tuple[float, float]:
        """Return how far the gradient of an input lies from central differences, on average and at most.

        Raises:
            AssertionError: that is further than `threshold`.
        """
        _, gradients, both = NetGradientChecker._run(net, [], outputs_with_grad, input_values, [input_to_check])
        value = input_values[input_to_check]

        def loss(position: int, step: float) -> Any:
            moved = value.copy()
            moved.flat[position] += step
            workspace.blobs[input_to_check] = moved
            workspace.RunNetOnce(both)
            return np.sum([np.sum(workspace.blobs[output]) for output in outputs_with_grad])

        estimate = np.zeros_like(value)
        for position in range(value.size):
            estimate.flat[position] = (loss(position, step_size) - loss(position, -step_size)) / step_size / 2
        told = f"Error in gradient check for net_copy {net.Name()}" + (f": {net.Proto()}" if print_net else "")
        return _assert_close(gradients[input_to_check], estimate, threshold, told)


class GradientChecker:
    """Gradients of operators, under half the sum of the squares of their outputs."""

    def __init__(
        self,
        stepsize: float,
        threshold: float,
        device_option: DeviceOption | None = None,
        workspace_name: str = "gradient_check",
        input_device_options: Mapping[str, DeviceOption] | None = None,
    ) -> None:
        """Take the step of the differences, how far they may lie apart, and where to run."""
        self._stepsize = stepsize
        self._threshold = threshold
        self._device_option = DeviceOption() if device_option is None else device_option
        self._workspace_name = workspace_name
        self._input_device_options: Mapping[str, DeviceOption] = input_device_options or {}

    def GetLossAndGrad(
        self,
        op: OperatorDef,
        grad_ops: Iterable[OperatorDef],
        inputs: Sequence[Array],
        input_names: Sequence[str],
        input_to_check: int,
        grad_name: Any,
        outputs_with_grads: Iterable[int],
    ) -> tuple[float, Array]:
        """Return the loss for inputs, and the gradient of one of them."""
        for name, value in zip(input_names, inputs, strict=False):
            workspace.FeedBlob(name, value, self._input_device_options.get(name, self._device_option))
        workspace.RunOperatorOnce(op)
        loss = 0.0
        for position in outputs_with_grads:
            name = op.output[position]
            value = workspace.FetchBlob(name)
            loss += (value**2).sum() / 2
            workspace.FeedBlob(f"{name}_grad", value, self._device_option)
        workspace.RunOperatorsOnce(grad_ops)
        if not isinstance(grad_name, core.GradientSlice):
            return loss, workspace.FetchBlob(grad_name)
        return loss, self._scattered(grad_name, inputs[input_to_check])

    def _scattered(self, rows: core.GradientSlice, like: Array) -> Array:
        """Return a gradient of rows as one of all rows."""
        workspace.FeedBlob("zeros", np.zeros_like(like, dtype=np.float32))
        workspace.FeedBlob("ones", np.ones(1, dtype=np.float32))
        for name in rows:
            copy = core.CreateOperator("EnsureCPUOutput", name, f"{name}_cpu", device_option=self._device_option)
            workspace.RunOperatorOnce(copy)
        inputs = ["zeros", "ones", f"{rows.indices}_cpu", f"{rows.values}_cpu", "ones"]
        workspace.RunOperatorOnce(core.CreateOperator("ScatterWeightedSum", inputs, "zeros"))
        return workspace.FetchBlob("zeros")

    def CheckSimple(
        self,
        op: OperatorDef,
        inputs: Sequence[Array],
        input_to_check: int,
        outputs_with_grads: Sequence[int],
        grad_ops: Sequence[OperatorDef] | None = None,
        input_device_options: Mapping[str, DeviceOption] | None = None,
        ensure_outputs_are_inferred: bool = False,
    ) -> tuple[bool, Array, Array]:
        """Return whether a gradient is near central differences, and both.

        With `ensure_outputs_are_inferred` shapes and types of gradients have to be known before they are there.
        """
        with contextlib.ExitStack() as stack:
            if self._workspace_name != workspace.CurrentWorkspace():
                stack.enter_context(workspace.WorkspaceGuard(self._workspace_name))
                stack.callback(workspace.ResetWorkspace)
            op.device_option.CopyFrom(self._device_option)
            made, gradients = getGradientForOp(op)
            backward = made if grad_ops is None else grad_ops
            places = input_device_options or core.InferOpBlobDevicesAsDict(op)[0]
            for name, value in zip(op.input, inputs, strict=False):
                workspace.FeedBlob(name, value, places.get(name, self._device_option))

            def evaluated() -> tuple[float, Array]:
                return self.GetLossAndGrad(
                    op, backward, inputs, op.input, input_to_check, gradients[input_to_check], outputs_with_grads
                )

            _, gradient = evaluated()
            value = inputs[input_to_check]
            if value.shape != gradient.shape:
                raise Exception(f"Mismatched gradient shapes: estimated ({value.shape}), grad ({gradient.shape})")
            if ensure_outputs_are_inferred:
                _assert_inferred(op, backward)
            estimate = self._differences(value, gradient, evaluated)
        return self._near(gradient, estimate), gradient, estimate

    def _differences(self, value: Array, gradient: Array, evaluated: Any) -> Array:
        """Return central differences at the elements that are looked at, and the gradient itself at the others."""
        estimate = gradient.astype(value.dtype)
        every = os.getenv("CAFFE2_FULL_GRAD_CHECK") == "1"
        for position in range(value.size):
            if not every and ENDS <= position < value.size - ENDS:
                continue
            kept = value.flat[position]
            value.flat[position] = kept + self._stepsize
            above, _ = evaluated()
            value.flat[position] = kept - self._stepsize
            below, _ = evaluated()
            value.flat[position] = kept
            estimate.flat[position] = (above - below) / self._stepsize / 2
        return estimate

    def _near(self, gradient: Array, estimate: Array) -> bool:
        far = ~np.isclose(gradient, estimate, atol=self._threshold, rtol=self._threshold)
        if far.any():
            print("Failed. [idx, grad, grad_estimate] are:")
            print(np.vstack([np.flatnonzero(far), gradient[far], estimate[far]]).T)
        return not far.any()


def _assert_inferred(op: OperatorDef, grad_ops: Iterable[OperatorDef]) -> None:
    """Raise where the shape or type of a gradient is not inferred, or another one."""
    net = NetDef(op=[op, *grad_ops])
    shapes, types = workspace.InferShapesAndTypes([net], nets_proto=True)
    for name in {output for one in grad_ops for output in one.output}:
        if name not in shapes:
            raise Exception(f"expected output {name} to be inferred")
        value = workspace.FetchBlob(name)
        if list(value.shape) != list(shapes[name]):
            raise Exception(f"Mismatched inferred shape: want({list(value.shape)}), got({list(shapes[name])})")
        wanted = inferred_type(value)
        if wanted != types[name]:
            raise Exception(f"Mismatched inferred type: want({wanted}), got({types[name]})")


def inferred_type(value: Any) -> Any:
    """Return the number that the element type of an array has in `TensorProto`; of what is no array a text."""
    if not isinstance(value, np.ndarray):
        return str(type(value))  # pyright: ignore[reportUnknownArgumentType] -- of anything
    return DataType.of(cast("Array", value).dtype).proto
