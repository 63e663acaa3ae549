"""What is queued for a convolution in one of its directions, also where it has no elements."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.device.cuda import queue_of
from tazza.engines.cudnn.graph import Behind, Direction, Form, Problem, bias_of
from tazza.engines.cudnn.image import wishes_of
from tazza.engines.cudnn.launch import CudnnLaunch, Lent, Older, Planned, Work, plan_of
from tazza.operator import Launch, OpView, Unsupported
from tazza.operator.channel_sum import CHANNEL_SUMS, ChannelSum


@dataclass(frozen=True, slots=True)
class Convolution:
    """What is to be computed.

    Attributes:
        direction: which tensor of the convolution.
        letters: letters of the convolution -> those of the operator; the bias, where there is one, among them.
        steps: what follows, in this order.
    """

    direction: Direction
    letters: Mapping[str, str]
    steps: tuple[Behind, ...] = ()


def works_of(op: OpView, context: Context, image: Problem, task: Convolution) -> list[Work]:
    """Return the calls for a task: one run of a plan, or of several, where no plan does all of it."""
    target = {"X": image.X, "W": image.W, "Y": image.Y}[task.direction.value]
    if 0 in target.dims:
        return []
    if image.empty:
        return _of_nothing(context, image, task, target)
    wishes = wishes_of(op, task.direction)
    if wishes.forced is not None and task.steps == (Behind.BIAS,):  # engines that add one too have other numbers
        alone = works_of(op, context, image, replace(task, steps=()))
        return [*alone, *bias_on(context, image, target, task.letters["Y"])]
    if task.steps:
        wishes = replace(wishes, forced=None)
    problem = replace(image, direction=task.direction, steps=task.steps)
    plan = plan_of(context, problem, wishes)
    if plan is not None:
        return [Planned(problem, wishes, plan, task.letters)]
    if wishes.forced is not None:
        words = f"no engine of cuDNN computes this by the algorithm {wishes.forced.name}, which is asked for"
        raise Unsupported(words)
    raise Unsupported(f"cuDNN has no engine for {task.direction.name.lower().replace('_', ' ')} of this convolution")


def _of_nothing(context: Context, image: Problem, task: Convolution, target: Form) -> list[Work]:
    """Return what makes sums of nothing: zeros, or the bias."""
    if any(step is not Behind.BIAS for step in task.steps):
        raise Unsupported("there is nothing to convolve, and something follows")
    device, letter = queue_of(context).device, task.letters[task.direction.value]
    zeros: list[Work] = [Older(device, "cudnnSetTensor", image.dtype, (letter, target))]
    return [*zeros, *bias_on(context, image, target, letter)] if "b" in task.letters else zeros


def bias_on(context: Context, image: Problem, target: Form, letter: str) -> list[Work]:
    """Return what adds the bias b to a blob."""
    given = ("b", bias_of(target)), (letter, target)
    return [Older(queue_of(context).device, "cudnnAddTensor", image.dtype, *given, added=True)]


def sums_of(context: Context, image: Problem, slope: Form, letters: tuple[str, str]) -> list[Work]:
    """Return what sums a slope over all but its channels, the gradient of a bias: by the engine that offers most."""
    device, bias = queue_of(context).device, bias_of(slope)
    if 0 in bias.dims:
        return []
    read, written = letters
    if 0 in slope.dims:
        return [Older(device, "cudnnSetTensor", image.dtype, (written, bias))]
    images, channels, *spots = slope.dims
    last = slope.steps[1] == 1  # of one place it is as well
    task = ChannelSum(read, written, images, channels, math.prod(spots), last, image.dtype, context.place)
    return [Lent(CHANNEL_SUMS.choose(task).run)]


def forward_launch(op: OpView, context: Context, image: Problem, steps: tuple[Behind, ...]) -> Launch:
    """Return the launch of Y of X, W, and whatever else an operator reads."""
    letters = {letter: letter for letter in ("X", "W", "Y", *op.input_letters)}
    return joined(works_of(op, context, image, Convolution(Direction.FORWARD, letters, steps)))


def gradient_launch(op: OpView, context: Context, image: Problem, filters: Convolution, data: Convolution) -> Launch:
    """Return the launch of dW, and of db and dX where these are asked for, which sees dY as the image or the result."""
    slope = image.Y if filters.letters["Y"] == "dY" else image.X
    parts = [works_of(op, context, image, filters)]
    if "db" in op.output_letters:
        parts.append(sums_of(context, image, slope, ("dY", "db")))
    if "dX" in op.output_letters:
        parts.append(works_of(op, context, image, data))
    return joined(*parts)


def joined(*parts: list[Work]) -> Launch:
    """Return the launch of several tasks."""
    return CudnnLaunch(tuple(work for part in parts for work in part))
