"""Record the nets that Caffe2's trainer of ImageNet makes; run by the Python that has the genuine Caffe2.

    PYTHON_OF_CAFFE2 tools/record_trainer.py tests/data/trainer_nets.json

Of each command line a check sum for each operator of each net, in order: of the operator's type, blobs, arguments,
engine and device. Nothing is trained: the first run of a net ends the program. Gradients do not share memory, for which
blobs get names of chance.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zlib
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any
from unittest.mock import patch

NOISE = ["--train_data", "null", "--use_cpu", "--num_layers", "18", "--epoch_size", "8", "--num_labels", "5"]
LINES: dict[str, list[str]] = {
    "one device": [*NOISE, "--batch_size", "2"],
    "two devices": [*NOISE, "--batch_size", "4", "--num_gpus", "2", "--image_size", "64"],
    "half numbers": [*NOISE, "--batch_size", "2", "--dtype", "float16"],
    "another rate": [*NOISE, "--batch_size", "2", "--base_learning_rate", "0.5", "--weight_decay", "0.01"],
    "groups": [*NOISE, "--batch_size", "2", "--resnext_num_groups", "4", "--resnext_width_per_group", "4"],
    "shufflenet": [*NOISE, "--batch_size", "2", "--model", "shufflenet"],
}


class Enough(Exception):
    """The nets are made."""


def _argument(one: Any) -> list[Any]:
    values = [getattr(one, field) for field in ("f", "i", "s") if one.HasField(field)]
    return [one.name, *map(str, values), [str(value) for many in (one.floats, one.ints, one.strings) for value in many]]


def check_sum(op: Any) -> str:
    """Return eight digits that change with anything of an operator but for its name."""
    option = op.device_option
    device = [option.device_type, option.device_id, list(option.extra_info)]
    told = [op.type, list(op.input), list(op.output), sorted(map(_argument, op.arg)), op.engine, device]
    return f"{zlib.crc32(json.dumps(told).encode()):08x}"


def nets(line: list[str]) -> dict[str, list[str]]:
    """Return by name the nets of a command line, a check sum for each operator."""
    trainer: Any = import_module("caffe2.python.examples.imagenet_trainer")
    parallel: Any = import_module("caffe2.python.data_parallel_model")
    workspace: Any = import_module("caffe2.python.workspace")
    found: dict[str, list[str]] = {}

    def note(net: Any, *rest: Any) -> None:
        del rest
        found["net" if net.Proto().type else "init net"] = [check_sum(op) for op in net.Proto().op]

    def enough(*given: Any, **more: Any) -> None:
        raise Enough

    def ignore(*given: Any) -> None:
        pass

    with ExitStack() as stack:
        stack.enter_context(patch.object(parallel, "OptimizeGradientMemory", ignore))
        for name, stand_in in {"RunNetOnce": note, "CreateNet": note, "RunNet": enough}.items():
            stack.enter_context(patch.object(workspace, name, stand_in))
        stack.enter_context(patch.object(sys, "argv", ["imagenet_trainer", *line]))
        stack.enter_context(suppress(Enough))
        trainer.main()
    return found


if __name__ == "__main__":
    target = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        recorded = {name: nets(line) for name, line in LINES.items()}
        os.chdir(os.path.dirname(target))
    texts = {name: {net: " ".join(sums) for net, sums in made.items()} for name, made in recorded.items()}
    with open(target, "w") as file:
        json.dump(texts, file, indent=1)
        file.write("\n")
