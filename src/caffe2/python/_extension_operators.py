"""Schemas, gradients and registration of operators, as the extension gave them to Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from caffe2.python._extension_workspace import Workspace, message
from tazza.operator import SCHEMAS, RowSlices, gradient_for_op, kernel_for, must_overwrite, prefer_engines
from tazza.operator import OpSchema as Schema
from tazza.operator.argument import REQUIRED
from tazza.proto import OperatorDef

KINDS = {0: "cpu", 1: "cuda"}
"""Kinds of devices by their number in `DeviceTypeProto`."""


def registered_operators() -> list[str]:
    """Return the names of all operator types."""
    return [type for type in SCHEMAS if not SCHEMAS[type].private]


def op_registry_key(op_type: str, engine: str) -> str:
    """Return the name under which an engine's operator was registered."""
    return op_type if engine in ("", "DEFAULT") else f"{op_type}_ENGINE_{engine}"


def nearby_opnames(name: str) -> list[str]:
    """Return names like this one."""
    import difflib

    return difflib.get_close_matches(name, registered_operators())


@dataclass
class GradientWrapper:
    """A gradient: the name of a blob, or of two."""

    dense: str = ""
    indices: str = ""
    values: str = ""

    def is_dense(self) -> bool:
        """Whether it is one blob."""
        return bool(self.dense)

    def is_sparse(self) -> bool:
        """Whether it is two."""
        return bool(self.indices or self.values)

    def is_empty(self) -> bool:
        """Whether there is none."""
        return not self.is_dense() and not self.is_sparse()


def get_gradient_defs(op_def: Any, output_gradients: Sequence[GradientWrapper]) -> tuple[list[bytes], list[Any]]:
    """Return the gradient operators of one operator as bytes, and the gradients of its inputs."""
    op = message(OperatorDef, op_def)
    given = [
        one.dense if one.is_dense() else RowSlices(one.indices, one.values) if one.is_sparse() else None
        for one in output_gradients
    ]
    ops, gradients = gradient_for_op(SCHEMAS[op.type].view(op), given)
    found = [
        GradientWrapper(indices=one.indices, values=one.values)
        if isinstance(one, RowSlices)
        else GradientWrapper(one or "")
        for one in gradients
    ]
    return [one.SerializeToString() for one in ops], found


def infer_op_input_output_device(op_def: Any) -> tuple[list[bytes], list[bytes]]:
    """Return the options of the devices that inputs and outputs lie on, as bytes."""
    from caffe2.python._devices import InferOpBlobDevices

    inputs, outputs = InferOpBlobDevices(message(OperatorDef, op_def))
    return [one.SerializeToString() for one in inputs], [one.SerializeToString() for one in outputs]


def register_python_op(func: Callable[..., Any], pass_workspace: bool, name: str) -> str:
    """Let operators call a function, and return the token by which they name it."""
    from tazza.ops.control.python_function import register_python

    return register_python(_showing(func, pass_workspace), pass_workspace=pass_workspace, token=name or None)


def register_python_builders(
    func: Callable[[], Callable[..., Any]], grad_func: Callable[[], Callable[..., Any]] | None, pass_workspace: bool
) -> str:
    """Let each operator call a function of its own, and return the token by which they name what makes it."""
    from tazza.ops.control.python_function import register_python

    def shown(builder: Callable[[], Callable[..., Any]]) -> Callable[[], Callable[..., Any]]:
        return lambda: _showing(builder(), pass_workspace)

    gradient = None if grad_func is None else shown(grad_func)
    return register_python(shown(func), gradient, pass_workspace=pass_workspace, builds=True)


def register_python_gradient_op(token: str, func: Callable[..., Any]) -> None:
    """Give a registered function its gradient, which gets no workspace: what builders make does, as in Caffe2."""
    from tazza.ops.control.python_function import is_passed_workspace, register_python_gradient

    def without(inputs: Any, outputs: Any, workspace: Any) -> Any:
        del workspace
        return func(inputs, outputs)

    register_python_gradient(token, without if is_passed_workspace(token) else func)


def _showing(func: Callable[..., Any], pass_workspace: bool) -> Callable[..., Any]:
    """Return the function, called with a workspace as scripts know it."""
    if not pass_workspace:
        return func

    def shown(inputs: Any, outputs: Any, workspace: Any) -> Any:
        return func(inputs, outputs, Workspace.showing(workspace))

    return shown


# -- engines -----------------------------------------------------------------------------------------------------------

Preferences = Mapping[int, Sequence[str]]


def set_global_engine_pref(global_pref: Preferences) -> None:
    """Ask engines first, for all operators of a kind of device."""
    for device, engines in global_pref.items():
        prefer_engines(_engines(engines), device=KINDS[device])


def set_op_engine_pref(op_type: str, op_pref: Preferences) -> None:
    """Ask engines first, for operators of one type."""
    for device, engines in op_pref.items():
        prefer_engines(_engines(engines), device=KINDS[device], operator=op_type)


def set_per_op_engine_pref(per_op_pref: Mapping[int, Mapping[str, Sequence[str]]]) -> None:
    """Ask engines first, for operators of several types."""
    for device, by_type in per_op_pref.items():
        for op_type, engines in by_type.items():
            set_op_engine_pref(op_type, {device: engines})


def set_engine_pref(per_op_pref: Mapping[int, Mapping[str, Sequence[str]]], global_pref: Preferences) -> None:
    """Ask engines first, for several types and for all."""
    set_per_op_engine_pref(per_op_pref)
    set_global_engine_pref(global_pref)


def _engines(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names if name != "DEFAULT"]


# -- schemas -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Argument:
    """An argument that a schema declares."""

    name: str
    description: str
    required: bool


class OpSchema:
    """What an operator type takes and gives."""

    Argument = Argument
    inf: ClassVar[int] = 2**31 - 1

    def __init__(self, schema: Schema) -> None:
        """Show a schema of tazza."""
        self._schema = schema

    @staticmethod
    def get(op_type: str) -> OpSchema | None:
        """Return the schema of a type, None where nobody declares it."""
        found = SCHEMAS.get(op_type)
        return None if found is None else OpSchema(found)

    @staticmethod
    def get_cpu_impl(op_type: str) -> str | None:
        """Return what computes it on the CPU, as text; None where nothing does."""
        found = SCHEMAS.get(op_type)
        return None if found is None or kernel_for(op_type, "cpu", "reference") is None else found.module

    @staticmethod
    def get_cuda_impl(op_type: str) -> str | None:
        """Return what computes it on a GPU, as text; None where nothing does."""
        del op_type
        return None

    @staticmethod
    def get_gradient_impl(op_type: str) -> str | None:
        """Return what makes its gradient, as text; None where nothing does."""
        found = SCHEMAS.get(op_type)
        return None if found is None or found.gradient_rule is None else found.module

    @property
    def args(self) -> list[Argument]:
        """Its arguments."""
        return [Argument(one.name, one.doc, one.default is REQUIRED) for one in self._schema.args.values()]

    @property
    def doc(self) -> str:
        """What it does."""
        return self._schema.doc

    @property
    def file(self) -> str:
        """The file that declares it."""
        return self._schema.module.replace(".", "/") + ".py"

    @property
    def line(self) -> int:
        """The line, which is not kept."""
        return 0

    @property
    def private(self) -> bool:
        """Whether only other operators make it."""
        return self._schema.private

    @property
    def input_desc(self) -> list[tuple[str, str]]:
        """Its inputs: name, and what is said of each."""
        return [(one.name, one.doc) for one in self._schema.inputs]

    @property
    def output_desc(self) -> list[tuple[str, str]]:
        """Its outputs: name, and what is said of each."""
        return [(one.name, one.doc) for one in self._schema.outputs]

    @property
    def min_input(self) -> int:
        """The fewest inputs."""
        return sum(not one.optional for one in self._schema.inputs)

    @property
    def max_input(self) -> int:
        """The most inputs."""
        return self.inf if any(one.variadic for one in self._schema.inputs) else len(self._schema.inputs)

    @property
    def min_output(self) -> int:
        """The fewest outputs."""
        return sum(not one.optional for one in self._schema.outputs)

    @property
    def max_output(self) -> int:
        """The most outputs."""
        return self.inf if any(one.variadic for one in self._schema.outputs) else len(self._schema.outputs)

    def num_inputs_allowed(self, number: int) -> bool:
        """Whether it takes so many inputs."""
        return self.min_input <= number <= self.max_input

    def num_outputs_allowed(self, number: int) -> bool:
        """Whether it gives so many outputs."""
        return self.min_output <= number <= self.max_output

    def num_inputs_outputs_allowed(self, inputs: int, outputs: int) -> bool:
        """Whether it takes and gives so many."""
        return self.num_inputs_allowed(inputs) and self.num_outputs_allowed(outputs)

    def CalculateOutput(self, inputs: int) -> int:
        """Return how many outputs follow from so many inputs, -1: any of those that are allowed."""
        del inputs
        return self.min_output if self.min_output == self.max_output else -1

    def inplace_enforced(self, input: int, output: int) -> bool:
        """Whether an output must overwrite an input."""
        names_in = [f"i{position}" for position in range(min(self.max_input, max(self.min_input, input + 1)))]
        names_out = [f"o{position}" for position in range(min(self.max_output, max(self.min_output, output + 1)))]
        view = self._schema.typed_view(OperatorDef(type=self._schema.type, input=names_in, output=names_out))
        return input in must_overwrite(view, output)
