"""Gradients, as `core` lends them: the registry that Python functions are put into, and the backward pass."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from caffe2.python._operators import BlobReference, GradientSlice, ScopedName
from tazza.graph import backward_pass
from tazza.operator import SCHEMAS, Gradient, RowSlices, gradient_for_op, register_gradient
from tazza.operator.gradient import NoGradient
from tazza.proto import OperatorDef


class OpSSA(NamedTuple):
    """An operator, with the version of every blob that it reads and writes."""

    op: Any
    in_versions: Any
    out_versions: Any


class GradGenMeta(NamedTuple):
    """Who makes a gradient: the operator, which of its outputs, the name, and where it runs."""

    grad_op: Any
    idx: Any
    gradient: Any
    device_option: Any


class SparseGradGenMeta(NamedTuple):
    """Who makes the two blobs of a gradient of some rows."""

    grad_op_indices: Any
    idx_indices: Any
    grad_op_values: Any
    idx_values: Any
    gradient: Any
    device_option: Any


def given(gradient: Any) -> Gradient:
    """Return a gradient as tazza names it."""
    if gradient is None:
        return None
    if isinstance(gradient, GradientSlice):
        return RowSlices(str(gradient.indices), str(gradient.values))
    return str(gradient)


def taken(gradient: Gradient) -> str | GradientSlice | None:
    """Return a gradient as old scripts see it, by name."""
    return GradientSlice(gradient.indices, gradient.values) if isinstance(gradient, RowSlices) else gradient


def referred(gradient: Gradient) -> BlobReference | GradientSlice | None:
    """Return a gradient as old scripts see it, by reference."""
    if isinstance(gradient, RowSlices):
        return GradientSlice(BlobReference(gradient.indices), BlobReference(gradient.values))
    return None if gradient is None else BlobReference(gradient)


def GetIndexFromGradientList(g_list: Sequence[Any], name: str) -> int | None:
    """Return where a gradient stands in a list, None where it does not."""
    for position, gradient in enumerate(g_list):
        if gradient == name:
            return position
        if type(gradient) is GradientSlice and name in (gradient.indices, gradient.values):
            return position
    return None


class IR:
    """Operators in order, with the versions of their blobs: what the backward pass goes through."""

    IS_AUTO_GEN_SUM_OPS_TAG = "is_auto_gen_sum_ops"
    ONLY_KEEP_IS_AUTO_GEN_SUM_OPS_TAG = "only_keep_is_auto_gen_sum_ops_tag"
    AUTOGEN_GRAD_SUFFIX = "_autogen_grad"

    def __init__(self, operators: Iterable[OperatorDef]) -> None:
        """Number the versions."""
        self.ssa: list[OpSSA] = []
        self.input_usages: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        self.frontier: dict[str, int] = defaultdict(int)
        self.gradient_frontier: dict[str, int] = {}
        self.gradient_generators: dict[str, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
        self.out_version_history: dict[str, list[int]] = defaultdict(list)
        self.in_version_history: dict[str, list[Any]] = defaultdict(list)
        operators = list(operators)
        for op in operators:
            self.Play(op)
        self.SanityCheck(operators)

    def SanityCheck(self, operators: Sequence[OperatorDef]) -> None:
        """Check that what StopGradient writes is read.

        Raises:
            ValueError: nobody does.
        """
        for op in operators:
            schema = SCHEMAS.get(op.type)
            rule = None if schema is None else schema.gradient_rule
            if isinstance(rule, NoGradient) and rule.kind.value == "stops" and op.output[0] not in self.input_usages:
                raise ValueError(
                    f"""{op.type}'s output '{op.output[0]}' is orphan.
You typically want to specify same input and output for
{op.type}. Op:\n\n{op}"""
                )

    def Play(self, op: OperatorDef) -> None:
        """Append an operator."""
        in_versions: dict[str, int] = {}
        for name in op.input:
            in_versions[name] = self.frontier[name]
            self.input_usages[name][self.frontier[name]].append(len(self.ssa))
            self.in_version_history[name].append((op, self.frontier[name]))
        out_versions: dict[str, int] = {}
        for name in op.output:
            if name in self.frontier:
                self.frontier[name] += 1
            out_versions[name] = self.frontier[name]
            self.out_version_history[name].append(self.frontier[name])
        self.ssa.append(OpSSA(op, in_versions, out_versions))

    def GetBackwardPass(
        self, ys: Sequence[Any] | Mapping[Any, Any]
    ) -> tuple[list[OperatorDef], dict[BlobReference, BlobReference | GradientSlice]]:
        """Return the gradient operators, and the gradient of each blob that has one."""
        pairs = ys.items() if isinstance(ys, Mapping) else ((y, None) for y in ys)
        targets = {str(y): given(gradient) for y, gradient in pairs}
        ops, gradients = backward_pass([one.op for one in self.ssa], targets, scope=ScopedName(""))
        read = (name for one in reversed(self.ssa) for name in one.op.input)
        names = dict.fromkeys(name for name in (*targets, *read, *gradients) if name in gradients)
        found = {BlobReference(name): referred(gradients[name]) for name in names}
        return ops, {name: gradient for name, gradient in found.items() if gradient is not None}


PythonGradient = Callable[[OperatorDef, list[Any]], tuple[Any, Any]]


class GradientRegistry:
    """Where gradients are asked for; Python functions fill it for types that have none."""

    gradient_registry_: ClassVar[dict[str, PythonGradient]] = {}

    @classmethod
    def RegisterGradient(cls, op_type: str) -> Callable[[PythonGradient], PythonGradient]:
        """Return a decorator for functions of (operator, gradients of its outputs)."""

        def wrapper(func: PythonGradient) -> PythonGradient:
            cls.gradient_registry_[op_type] = func

            def answer(
                op: OperatorDef, output_gradients: Sequence[Gradient]
            ) -> tuple[list[OperatorDef], list[Gradient]]:
                ops, gradients = cls._FromPython(op, [taken(one) for one in output_gradients])
                return ops, [given(one) for one in gradients]

            register_gradient(op_type, answer)
            return func

        return wrapper

    @classmethod
    def _FromPython(cls, op: OperatorDef, g_output: list[Any]) -> tuple[list[OperatorDef], list[Any]]:
        ops, gradients = cls.gradient_registry_[op.type](op, g_output)
        listed: list[OperatorDef] = [] if ops is None else [*ops] if isinstance(ops, list) else [ops]  # pyright: ignore[reportUnknownVariableType] -- of anything
        return listed, list(gradients)

    @classmethod
    def GetGradientForOp(cls, op: OperatorDef, g_output: Sequence[Any]) -> tuple[list[OperatorDef], list[Any]]:
        """Return the gradient operators of one operator, and the gradients of its inputs.

        Raises:
            Exception: it has none.
        """
        schema = SCHEMAS.get(op.type)
        try:
            if schema is None:
                raise NotImplementedError(f"nobody declares {op.type}")
            ops, gradients = gradient_for_op(schema.view(op), [given(one) for one in g_output])
        except Exception as error:
            if op.type in cls.gradient_registry_:
                return cls._FromPython(op, list(g_output))
            raise Exception(f"Exception when creating gradient for [{op.type}]:{error}.\nOp: \n{op}") from error
        return ops, [taken(one) for one in gradients]

    @classmethod
    def GetBackwardPass(
        cls,
        operators: Iterable[OperatorDef],
        ys: Sequence[Any] | Mapping[Any, Any],
        ys_generate_gradient: bool = False,
    ) -> tuple[list[OperatorDef], dict[BlobReference, BlobReference | GradientSlice]]:
        """Return the gradient operators of a list of operators, and the gradient of each blob that has one.

        Args:
            operators: the forward operators, in order.
            ys: blobs to differentiate, or a map to their given gradients.
            ys_generate_gradient: start the gradients of a list by operators of one's own, `<y>_autogen_grad`; that is
                what happens where None is given in any case.
        """
        del ys_generate_gradient
        return IR(operators).GetBackwardPass(ys)
