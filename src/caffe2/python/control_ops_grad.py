"""Gradients of `Do`, `If` and `While` by themselves; `core.GradientRegistry` finds them by the operator's type."""

from __future__ import annotations

from typing import Any

from caffe2.python import core
from tazza.proto import NetDef, OperatorDef


def _gradient(op: OperatorDef, g_output: list[Any]) -> tuple[list[OperatorDef], list[Any]]:
    copies, deduped = dedupe_g_output(op, g_output)
    ops, gradients = core.GradientRegistry.GetGradientForOp(op, deduped)
    return [*copies, *ops], gradients


def gen_do_gradient(op: OperatorDef, g_output: list[Any]) -> tuple[list[OperatorDef], list[Any]]:
    """Return the operators of the gradient of a `Do`, and the gradients of its inputs."""
    return _gradient(op, g_output)


def gen_if_gradient(op: OperatorDef, g_output: list[Any]) -> tuple[list[OperatorDef], list[Any]]:
    """Return the operators of the gradient of an `If`, and the gradients of its inputs."""
    return _gradient(op, g_output)


def gen_while_gradient(op: OperatorDef, g_output: list[Any]) -> tuple[list[OperatorDef], list[Any]]:
    """Return the operators of the gradient of a `While`, and the gradients of its inputs."""
    return _gradient(op, g_output)


def dedupe_g_output(op: OperatorDef, g_output: list[Any]) -> tuple[list[OperatorDef], list[Any]]:
    """Return copies for gradients that several outputs share, since a `Do` binds a blob once; and the names then."""
    copies: list[OperatorDef] = []
    deduped: list[Any] = []
    for output, gradient in zip(op.output, g_output, strict=False):
        if gradient is None or gradient not in deduped:
            deduped.append(gradient)
            continue
        deduped.append(f"{output}_{gradient}_DEDUP")
        copies.append(core.CreateOperator("Copy", [gradient], [deduped[-1]]))
    return copies, deduped


def getNetArgument(op: OperatorDef, net_name: str) -> NetDef | None:
    """Return the net that an operator has under a name, or None."""
    return next((one.n for one in op.arg if one.name == net_name and one.HasField("n")), None)


def disambiguate_grad_if_op_output(grad_op: OperatorDef, idx: int, new_grad_output: str) -> None:
    """Rename an output of an `If`, and what its nets write and then read under that name."""
    former = grad_op.output[idx]
    grad_op.output[idx] = new_grad_output
    for name in ("then_net", "else_net"):
        net = getNetArgument(grad_op, name)
        written = False
        for op in net.op if net is not None else ():
            if written:
                op.input[:] = [new_grad_output if one == former else one for one in op.input]
            written = written or former in op.output
            op.output[:] = [new_grad_output if one == former else one for one in op.output]
