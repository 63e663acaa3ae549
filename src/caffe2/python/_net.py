"""Nets, as `core` lends them: a `NetDef` that grows by calling operator types on it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from caffe2.python._gradient import GradientRegistry
from caffe2.python._net_records import NetRecords
from caffe2.python._operators import (
    PYTHON,
    BlobReference,
    CreateOperator,
    GradientSlice,
    IsOperator,
    IsOperatorWithEngine,
    RectifyInputOutput,
    RegisterPythonBuilders,
    RegisterPythonImpl,
    ScopedBlobReference,
    ScopedName,
    extract_stacktrace,
    unknown_operator,
)
from tazza.operator import SCHEMAS
from tazza.proto import DeviceOption, OperatorDef
from tazza.tensor import DataType as TensorType


def get_blob_ref(blob_name_or_ref: Any) -> BlobReference:
    """Return a reference, made of a name with the current scope in front."""
    return blob_name_or_ref if type(blob_name_or_ref) is BlobReference else ScopedBlobReference(blob_name_or_ref)


class Net(NetRecords):
    """A net under construction: `net.Relu("x", "y")` adds an operator."""

    operator_registry_: ClassVar[dict[str, Callable[..., Any]]] = {}

    def GetBlobRef(self, blob_name: str) -> BlobReference:
        """Return a reference to a blob that this net makes or reads from outside.

        Raises:
            KeyError: it does neither.
        """
        if not self.BlobIsDefined(blob_name):
            raise KeyError(f"Net does not define blob {blob_name}")
        return BlobReference(blob_name, self)

    # -- operators ---------------------------------------------------------------------------------------------------

    def _CreateAndAddToSelf(self, op_type: str, inputs: Any, outputs: Any = None, **kwargs: Any) -> Any:
        """Add an operator, and return its outputs: one reference, several in a tuple, or None."""
        inputs = RectifyInputOutput(inputs)
        for blob in inputs:
            if not self.BlobIsDefined(blob):
                assert blob.Net() is not self
                self.AddExternalInput(blob)
        if outputs is None:
            outputs = self.NextName(prefix=op_type)
        elif type(outputs) is int:
            outputs = [self.NextName(prefix=op_type, output_id=i) for i in range(outputs)]
        made = CreateOperator(op_type, inputs, RectifyInputOutput(outputs, net=self), **kwargs)
        self._ExtendOps([made])
        note_traceback(self.Name(), len(self._net.op) - 1)
        found = tuple(BlobReference(name, self) for name in made.output)
        return None if not found else found[0] if len(found) == 1 else found

    def _ExtendOps(self, new_ops: Iterable[OperatorDef]) -> None:
        self._net.op.extend(new_ops)

    def extend_ops(self, new_ops: Iterable[OperatorDef]) -> None:
        """Append operators as they are."""
        return self._ExtendOps(new_ops)

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        """Return what adds an operator of a type."""
        if op_type.startswith("__") or op_type == "_builder":
            raise AttributeError(f"Attribute {op_type} not found.")
        if not IsOperator(op_type) and not IsOperatorWithEngine(op_type, "CUDNN"):
            raise unknown_operator(op_type)
        return lambda *args, **kwargs: self._CreateAndAddToSelf(op_type, *args, **kwargs)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *SCHEMAS})

    def Python(
        self,
        f: Any,
        grad_f: Any = None,
        python_func_type: Any = None,
        pass_workspace: bool = False,
        grad_output_indices: Sequence[int] | None = None,
        grad_input_indices: Sequence[int] | None = None,
    ) -> Callable[..., Any]:
        """Return what adds an operator that calls `f(inputs, outputs)`.

        A function, its arguments and its named ones in a tuple make `f`: once for each operator that is created.
        """
        assert IsOperator(PYTHON)
        builds = isinstance(f, tuple)
        assert not grad_f or builds == isinstance(grad_f, tuple), (
            "A tuple has to be passed to both f and grad_f or neither."
        )
        token = (
            RegisterPythonBuilders(f, grad_f, pass_workspace)  # pyright: ignore[reportUnknownArgumentType] -- of anything
            if builds
            else RegisterPythonImpl(f, grad_f, python_func_type, pass_workspace=pass_workspace)
        )
        grad = {"grad_output_indices": grad_output_indices, "grad_input_indices": grad_input_indices}
        chosen = {key: value for key, value in grad.items() if value}
        return lambda *args, **kwargs: self._CreateAndAddToSelf(PYTHON, *args, token=token, **chosen, **kwargs)

    def Const(self, array: Any, blob_out: Any = None, dtype: Any = None) -> Any:
        """Add a fill that gives an array, a number, a text or a bool."""
        import numpy as np

        given: Any = np.array(array, dtype=dtype)
        if isinstance(array, bool):
            return self.ConstantFill([], blob_out or 1, dtype=TensorType.BOOL.proto, value=array)
        fills = {"float64": "GivenTensorFill", "float32": "GivenTensorFill", "int32": "GivenTensorIntFill"}
        fills |= {"int64": "GivenTensorInt64Fill", "bool": "GivenTensorBoolFill"}
        kind = "GivenTensorStringFill" if given.dtype.kind in "SUO" else fills.get(given.dtype.name)
        if kind is None:
            raise ValueError(f"Unsupported dtype {given.dtype}")
        return getattr(self, kind)([], blob_out or 1, shape=given.shape, values=given.flatten().tolist())

    def LogInfo(self, *msg_or_blobs: Any) -> None:
        """Print texts and blobs when the net runs."""
        for one in msg_or_blobs:
            if not isinstance(one, BlobReference):
                blob = self.GivenTensorStringFill([], self.NextName("log"), shape=[], values=[one])
            else:
                blob = one
            self.Print(blob, [])

    # -- names -------------------------------------------------------------------------------------------------------

    def NextScopedBlob(self, prefix: str = "unnamed") -> BlobReference:
        """Return a name that this net does not define, with the current scope in front."""
        return self.NextBlob(ScopedName(prefix))

    def NextBlob(self, prefix: str = "unnamed") -> BlobReference:
        """Return a name that this net does not define: `<prefix>`, then `<prefix>_auto_0` ...; no net makes it yet."""
        prefix = str(prefix)
        names = itertools.chain([prefix], (f"{prefix}_auto_{count}" for count in itertools.count()))
        found = next(name for name in names if name not in self._given_names and not self.BlobIsDefined(name))
        self._given_names.add(found)
        return BlobReference(found)

    def NextName(self, prefix: str | None = None, output_id: int | None = None) -> str:
        """Return a name for an output, without the scope: `<net>/<prefix>`, or `<net>_blob_<n>`."""
        return self._builder.next_name(prefix or None, output_id)

    # -- inputs and outputs ------------------------------------------------------------------------------------------

    def AddExternalInput(self, *inputs: Any) -> Any:
        """Declare blobs that must be there before the net runs; names are taken as they are."""
        assert len(inputs) > 0
        refs: list[BlobReference] = []
        for one in inputs:
            name = str(one)
            assert name not in self._net.external_input, f"Net already contains an input named {name}"
            self._net.external_input.append(name)
            refs.append(get_blob_ref(one) if type(one) is BlobReference else BlobReference(name))
        return refs[0] if len(refs) == 1 else refs

    def AddExternalOutput(self, *outputs: Any) -> None:
        """Declare blobs that the net is run for."""
        for one in outputs:
            assert isinstance(one, BlobReference)
            assert self.BlobIsDefined(one), f"{one} is not defined"
        self._net.external_output.extend(map(str, outputs))

    def AddScopedExternalInputs(self, *inputs: Any) -> list[BlobReference]:
        """Declare inputs, with the current scope in front."""
        return [self.AddExternalInput(ScopedBlobReference(one)) for one in inputs]

    def AddScopedExternalOutputs(self, *outputs: Any) -> None:
        """Declare outputs, with the current scope in front."""
        self.AddExternalOutput(*map(ScopedBlobReference, outputs))

    def AddExternalInputs(self, *inputs: Any) -> Any:
        """Declare inputs."""
        return self.AddExternalInput(*inputs)

    def AddExternalOutputs(self, *outputs: Any) -> None:
        """Declare outputs."""
        self.AddExternalOutput(*outputs)

    @property
    def external_inputs(self) -> list[BlobReference]:
        """References to the declared inputs."""
        return [BlobReference(name) for name in self._net.external_input]

    @property
    def external_outputs(self) -> list[BlobReference]:
        """References to the declared outputs."""
        return [BlobReference(name) for name in self._net.external_output]

    # -- gradients, arguments, devices -------------------------------------------------------------------------------

    def AddGradientOperators(self, ys: Sequence[Any] | Mapping[Any, Any], skip: int = 0) -> dict[Any, Any]:
        """Append the gradient operators of those behind the first `skip`, and return the gradient of each blob."""
        ops, gradients = GradientRegistry.GetBackwardPass(self._net.op[skip:], ys)
        from caffe2.python import workspace

        if workspace.IsImmediate():
            for op in ops:
                workspace.RunOperatorImmediate(op)
        self._ExtendOps(ops)
        return gradients

    def AddArgument(self, arg_name: str, arg_value: Any) -> None:
        """Give the net itself an argument."""
        from caffe2.python.utils import MakeArgument

        self._net.arg.append(MakeArgument(arg_name, arg_value))

    def DeduplicateGradientSlices(self, g: GradientSlice, aggregator: str = "sum") -> GradientSlice:
        """Add operators that give a gradient of rows each of which occurs once."""
        assert isinstance(g, GradientSlice)
        unique, remapping = self.Unique([g.indices], 2, engine="SparseHash")
        if aggregator.lower() == "sum":
            new_g = self.UnsortedSegmentSum([g.values, remapping], 1)
        elif aggregator.lower() == "mean":
            new_g = self.UnsortedSegmentMean([g.values, remapping], 1)
        else:
            raise ValueError(f"{aggregator} is not supported")
        return GradientSlice(indices=unique, values=new_g)

    @staticmethod
    def _RunAllOnGPU(net: Any, gpu_id: int = 0, use_cudnn: bool = False) -> None:
        net.device_option.CopyFrom(DeviceOption(device_type=1, device_id=gpu_id))
        if use_cudnn:
            for op in net.op:
                op.engine = "CUDNN"

    def RunAllOnGPU(self, gpu_id: int = 0, use_cudnn: bool = False) -> None:
        """Let all operators without a device of their own run on a GPU."""
        self._RunAllOnGPU(self._net, gpu_id, use_cudnn)

    def RunAllOnMKL(self) -> None:
        """Let all operators without a device of their own run where MKLDNN ran."""
        self._net.device_option.CopyFrom(DeviceOption(device_type=2))

    def RunAllOnIDEEP(self) -> None:
        """Let all operators without a device of their own run where IDEEP ran."""
        self._net.device_option.CopyFrom(DeviceOption(device_type=5))


def note_traceback(net: str, position: int) -> None:
    """Remember where an operator was added, for who reads the log when it fails."""
    from caffe2.python import workspace

    workspace.operator_tracebacks[net][position] = extract_stacktrace()
