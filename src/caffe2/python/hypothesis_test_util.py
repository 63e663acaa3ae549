"""Tests of operators over random inputs: what they compute, on which devices, their gradients, what they refuse.

`@given(X=hu.tensor(), **hu.gcs)` above a method of a `HypothesisTestCase` draws inputs, a device `gc` and all devices
`dc`; the method asserts by one of `assertReferenceChecks`, `assertGradientChecks`, `assertDeviceChecks`.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import hypothesis
import numpy as np

from caffe2.python import core, device_checker, gradient_checker, test_util, workspace
from caffe2.python._test_strategies import (
    Array,
    arrays,
    cpu_do,
    cuda_do,
    device_checker_device_options,
    device_options,
    dims,
    elements_of_type,
    expanded_device_options,
    floats,
    gcs,
    gcs_cpu_only,
    gcs_cuda_only,
    gcs_gpu_only,
    gcs_no_hip,
    gcs_of,
    gpu_do,
    gradient_checker_device_option,
    hip_do,
    lengths,
    lengths_tensor,
    segment_ids,
    segmented_tensor,
    settings,
    sparse_lengths_tensor,
    sparse_segmented_tensor,
    tensor,
    tensor1d,
    tensors,
    tensors1d,
    to_float32,
)
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.tensor import DataType

__all__ = [
    "HypothesisTestCase",
    "arrays",
    "cpu_do",
    "cuda_do",
    "device_checker_device_options",
    "device_options",
    "dims",
    "elements_of_type",
    "expanded_device_options",
    "floats",
    "gcs",
    "gcs_cpu_only",
    "gcs_cuda_only",
    "gcs_gpu_only",
    "gcs_no_hip",
    "gcs_of",
    "gpu_do",
    "gradient_checker_device_option",
    "hip_do",
    "is_sandcastle",
    "is_travis",
    "lengths",
    "lengths_tensor",
    "runOpBenchmark",
    "runOpOnInput",
    "segment_ids",
    "segmented_tensor",
    "settings",
    "sparse_lengths_tensor",
    "sparse_segmented_tensor",
    "temp_workspace",
    "tensor",
    "tensor1d",
    "tensors",
    "tensors1d",
    "to_float32",
]

Options = Mapping[str, DeviceOption]


def is_sandcastle() -> bool:
    """Whether the test farm of Caffe2's authors runs this."""
    return os.getenv("SANDCASTLE") == "1" or os.getenv("TW_JOB_USER") == "sandcastle"


def is_travis() -> bool:
    """Whether Travis runs this."""
    return "TRAVIS" in os.environ


def _register(name: str, *, examples: int, deadline_ms: int, **more: Any) -> None:
    slow = [hypothesis.HealthCheck.too_slow]
    kept: dict[str, Any] = {"suppress_health_check": slow, "database": None, "verbosity": hypothesis.Verbosity.verbose}
    hypothesis.settings.register_profile(name, max_examples=examples, deadline=deadline_ms, **kept, **more)


_register("sandcastle", examples=50, deadline_ms=10_000, derandomize=True)
_register("dev", examples=10, deadline_ms=10_000)
_register("debug", examples=1000, deadline_ms=50_000)
hypothesis.settings.load_profile("sandcastle" if is_sandcastle() else os.getenv("CAFFE2_HYPOTHESIS_PROFILE", "dev"))


@contextlib.contextmanager
def temp_workspace(name: str | bytes = b"temp_ws") -> Generator[None]:
    """Let a workspace be the current one inside; it is left empty."""
    with workspace.WorkspaceGuard(name.decode() if isinstance(name, bytes) else name):
        try:
            yield
        finally:
            workspace.ResetWorkspace()


def _on(device_option: DeviceOption, op: OperatorDef) -> OperatorDef:
    """Return the operator on a device."""
    made = copy.deepcopy(op)
    made.device_option.CopyFrom(device_option)
    return made


def _feed(op: OperatorDef, inputs: Iterable[Any], device_option: DeviceOption, places: Options | None) -> None:
    """Feed the inputs of an operator where it reads them."""
    found = places or core.InferOpBlobDevicesAsDict(op)[0]
    for name, value in zip(op.input, inputs, strict=False):
        workspace.FeedBlob(name, value, device_option=found.get(name, device_option))


def _assert_all_given(op: OperatorDef, inputs: Sequence[Any]) -> None:
    if len(op.input) > len(inputs):
        raise ValueError(f"must supply an input for each input on the op: {op.input} vs {inputs}")


def runOpBenchmark(
    device_option: DeviceOption,
    op: OperatorDef,
    inputs: Iterable[Any],
    input_device_options: Options | None = None,
    iterations: int = 10,
) -> Any:
    """Return the milliseconds of a run of an operator, as `workspace.BenchmarkNet` gives them."""
    op = _on(device_option, op)
    net = NetDef(name=op.name or "test", op=[op])
    with temp_workspace():
        _feed(op, inputs, device_option, input_device_options)
        workspace.CreateNet(net)
        return workspace.BenchmarkNet(net.name, 1, iterations, True)


def runOpOnInput(
    device_option: DeviceOption, op: OperatorDef, inputs: Sequence[Any], input_device_options: Options | None = None
) -> list[Any]:
    """Return the outputs of an operator."""
    op = _on(device_option, op)
    with temp_workspace():
        _assert_all_given(op, inputs)
        _feed(op, inputs, device_option, input_device_options)
        workspace.RunOperatorOnce(op)
        return workspace.FetchBlobs(op.output)


def _strict_inference() -> bool:
    """Whether shapes that are inferred have to be right in all tests."""
    return os.getenv("CAFFE2_ASSERT_SHAPEINFERENCE") == "1"


class HypothesisTestCase(test_util.TestCase):
    """A test of operators."""

    def assertDeviceChecks(
        self,
        device_options: Sequence[DeviceOption],
        op: OperatorDef,
        inputs: Iterable[Any],
        outputs_to_check: Iterable[int],
        input_device_options: Options | None = None,
        threshold: float = 0.01,
    ) -> None:
        """Assert that an operator gives the same on all devices."""
        checker = device_checker.DeviceChecker(threshold, device_options=device_options)
        self.assertTrue(checker.CheckSimple(op, inputs, outputs_to_check, input_device_options))

    def assertGradientChecks(
        self,
        device_option: DeviceOption,
        op: OperatorDef,
        inputs: Sequence[Array],
        outputs_to_check: int,
        outputs_with_grads: Sequence[int],
        grad_ops: Sequence[OperatorDef] | None = None,
        threshold: float = 0.005,
        stepsize: float = 0.05,
        input_device_options: Options | None = None,
        ensure_outputs_are_inferred: bool = False,
    ) -> None:
        """Assert that the gradient of the input with the number `outputs_to_check` is near central differences."""
        checker = gradient_checker.GradientChecker(
            stepsize=stepsize,
            threshold=threshold,
            device_option=device_option,
            workspace_name=str(device_option),
            input_device_options=input_device_options,
        )
        near, gradient, estimate = checker.CheckSimple(
            op,
            inputs,
            outputs_to_check,
            outputs_with_grads,
            grad_ops=grad_ops,
            input_device_options=input_device_options,
            ensure_outputs_are_inferred=ensure_outputs_are_inferred,
        )
        self.assertEqual(gradient.shape, estimate.shape)
        self.assertTrue(near, f"Gradient check failed for input {op.input[outputs_to_check]}")

    def _assertGradReferenceChecks(
        self,
        op: OperatorDef,
        inputs: Sequence[Any],
        ref_outputs: Any,
        output_to_grad: str,
        grad_reference: Callable[..., Sequence[Any]],
        threshold: float = 1e-4,
    ) -> None:
        given = f"{output_to_grad}_grad"
        ops, gradients = core.GradientRegistry.GetBackwardPass([op], {output_to_grad: given})
        value = workspace.FetchBlob(output_to_grad)
        wanted = grad_reference(value, ref_outputs, inputs)
        workspace.FeedBlob(given, value)
        workspace.RunOperatorsOnce(ops)
        self.assertEqual(len(wanted), len(inputs))
        for name, reference in zip(op.input, wanted, strict=False):
            gradient = gradients.get(core.BlobReference(name))
            if gradient is None:
                self.assertIsNone(reference)
            else:
                _assert_gradient(gradient, reference, threshold)

    def _assertInferTensorChecks(
        self,
        name: str,
        shapes: Mapping[str, Sequence[int]],
        types: Mapping[str, int],
        output: Any,
        ensure_output_is_inferred: bool = False,
    ) -> None:
        self.assertTrue(not ensure_output_is_inferred or name in shapes, f"Shape for {name} was not inferred")
        if name not in shapes:
            return
        value = workspace.FetchBlob(name)
        kind = gradient_checker.inferred_type(value)
        try:
            np.testing.assert_array_equal(
                np.array(shapes[name]),
                np.array(value.shape),
                err_msg=f"Shape {name} mismatch: {shapes[name]} vs. {value.shape}",
            )
            if kind == DataType.INT32.proto:
                np.testing.assert_equal(types[name], kind, err_msg=f"Type {name} mismatch: {types[name]} vs. {kind}")
        except AssertionError as error:
            logging.warning(str(error))
            if _strict_inference() or ensure_output_is_inferred:
                raise

    def assertReferenceChecks(
        self,
        device_option: DeviceOption,
        op: OperatorDef,
        inputs: Sequence[Any],
        reference: Callable[..., Any],
        input_device_options: Options | None = None,
        threshold: float = 1e-4,
        output_to_grad: str | None = None,
        grad_reference: Callable[..., Any] | None = None,
        atol: float | None = None,
        outputs_to_check: Sequence[int] | None = None,
        ensure_outputs_are_inferred: bool = False,
    ) -> list[Any]:
        """Assert that an operator gives what `reference(*inputs)` does, a list or tuple; returns its outputs.

        With `grad_reference(gradient, outputs, inputs)` the gradients of the inputs are compared too, where the
        output `output_to_grad` is its own gradient.
        """
        op = _on(device_option, op)
        with temp_workspace():
            _assert_all_given(op, inputs)
            _feed(op, inputs, device_option, input_device_options)
            net = core.Net("opnet")
            net.Proto().op.extend([op])
            inferred = _inferred(net, strict=ensure_outputs_are_inferred)
            workspace.RunNetOnce(net)
            wanted = reference(*inputs)
            if not isinstance(wanted, (tuple, list)):
                raise RuntimeError(
                    "You are providing a wrong reference implementation. A proper one should return a tuple/list of "
                    "numpy arrays."
                )
            listed: list[Any] = list(wanted)  # pyright: ignore[reportUnknownArgumentType] -- of anything
            if not outputs_to_check:
                self.assertEqual(len(listed), len(op.output))
            found: list[Any] = []
            for position, one in zip(outputs_to_check or range(len(op.output)), listed, strict=False):
                name = op.output[position]
                value = workspace.FetchBlob(name)
                _assert_output(name, value, one, threshold if atol is None else atol, threshold)
                if inferred is not None:
                    self._assertInferTensorChecks(
                        name, *inferred, value, ensure_output_is_inferred=ensure_outputs_are_inferred
                    )
                found.append(value)
            if grad_reference is not None:
                assert output_to_grad is not None, "If grad_reference is set, output_to_grad has to be set as well"
                with core.DeviceScope(device_option):
                    self._assertGradReferenceChecks(op, inputs, wanted, output_to_grad, grad_reference, threshold)
            return found

    def assertValidationChecks(
        self,
        device_option: DeviceOption,
        op: OperatorDef,
        inputs: Sequence[Any],
        validator: Callable[..., Any],
        input_device_options: Options | None = None,
        as_kwargs: bool = True,
        init_net: Any = None,
    ) -> None:
        """Call `validator` with inputs and outputs: by the names of the blobs, or as two lists."""
        names = [*op.input, *op.output]
        if as_kwargs:
            assert len(set(names)) == len(names), "in-place ops are not supported in as_kwargs mode"
        op = _on(device_option, op)
        with temp_workspace():
            _feed(op, inputs, device_option, input_device_options)
            if init_net:
                workspace.RunNetOnce(init_net)
            workspace.RunOperatorOnce(op)
            outputs = workspace.FetchBlobs(op.output)
            if as_kwargs:
                validator(**dict(zip(names, [*inputs, *outputs], strict=False)))
            else:
                validator(inputs=inputs, outputs=outputs)

    def assertRunOpRaises(
        self,
        device_option: DeviceOption,
        op: OperatorDef,
        inputs: Iterable[Any],
        input_device_options: Options | None = None,
        exception: Any = (Exception,),
        regexp: str | None = None,
    ) -> None:
        """Assert that an operator raises, with a text that fits `regexp` where one is given."""
        op = _on(device_option, op)
        with temp_workspace():
            _feed(op, inputs, device_option, input_device_options)
            with self.assertRaisesRegex(exception, "" if regexp is None else regexp):
                workspace.RunOperatorOnce(op)


def _inferred(net: Any, *, strict: bool) -> tuple[dict[str, list[int]], dict[str, int]] | None:
    """Return shapes and types of a net's blobs, or None where they cannot be inferred."""
    try:
        return workspace.InferShapesAndTypes([net])
    except RuntimeError as error:
        logging.warning(str(error))
        if _strict_inference() or strict:
            raise
        return None


def _assert_output(name: str, value: Any, wanted: Any, atol: float, rtol: float) -> None:
    if value.dtype.kind in "SO":
        np.testing.assert_array_equal(value, wanted)
    else:
        told = f"Output {name} is not matching the reference"
        np.testing.assert_allclose(value, wanted, atol=atol, rtol=rtol, err_msg=told)


def _assert_gradient(gradient: Any, reference: Any, threshold: float) -> None:
    """Assert that a gradient is near a given one; one of rows is near values and indices."""
    values, wanted = gradient, reference
    if isinstance(gradient, core.GradientSlice):
        values, (wanted, rows) = gradient.values, reference
        np.testing.assert_allclose(workspace.FetchBlob(str(gradient.indices)), rows, atol=1e-4, rtol=1e-4)
    told = f"Gradient {values} (x) is not matching the reference (y)"
    np.testing.assert_allclose(workspace.FetchBlob(str(values)), wanted, atol=threshold, rtol=threshold, err_msg=told)
