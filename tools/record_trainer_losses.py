"""Record the losses of Caffe2's trainer of ImageNet on a few pictures; run by the Python that has the genuine Caffe2.

    PYTHON_OF_CAFFE2 tools/record_trainer_losses.py tests/data/trainer_losses.json

Its wheel has neither LMDB nor `ImageInput`. So the trainer is asked for noise, over which the pictures are fed before
each step, as `ImageInput` gives them. They are as large as what is cropped from them, and mirrored in themselves: no
chance is left. Each fill of the init net has a seed, which its blob's name gives.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import zlib
from contextlib import ExitStack
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np

SIZE, COUNT, BATCH, STEPS = 256, 5, 2, 3
"""256 is what the trainer scales pictures to; the last batch begins with the pictures anew."""
LINE = (
    *("--use_cpu", "--num_layers", "18", "--num_labels", "5", "--image_size", str(SIZE), "--batch_size", str(BATCH)),
    *("--epoch_size", str(BATCH * STEPS), "--num_epochs", "1", "--base_learning_rate", "0.0001"),
)
NAMES = "loss", "accuracy", "accuracy_top5"
WEIGHTS = "conv1_w", "last_out_L5_w"


def pictures() -> Any:
    """Return the pictures (COUNT, SIZE, SIZE, 3), bytes: stripes and noise, the right half the left one's image."""
    random = np.random.RandomState(5)
    half = random.randint(0, 120, (COUNT, SIZE, SIZE // 2, 3))
    stripes = 100 * (np.arange(SIZE) * np.arange(1, COUNT + 1)[:, None] // 32 % 2)
    left = (half + stripes[:, :, None, None]).astype(np.uint8)
    return np.concatenate([left, left[:, :, ::-1]], axis=2)


def label(number: int) -> int:
    """Return the label of a picture."""
    return number % 5


def fed(step: int) -> dict[str, Any]:
    """Return what `ImageInput` gives at a step: blue, green and red, about -1 to 1, and the labels."""
    numbers = [(step * BATCH + one) % COUNT for one in range(BATCH)]
    data = (pictures()[numbers][..., ::-1].transpose(0, 3, 1, 2).astype(np.float32) - 128) / 128
    return {"cpu_0/data": np.ascontiguousarray(data), "cpu_0/label": np.array([*map(label, numbers)], np.int32)}


def trained(line: list[str], *, feed: bool, shake: float = 0.0) -> dict[str, Any]:
    """Train; return `NAMES` of each step, and the sums of squares of `WEIGHTS` after the last one.

    `shake` is the share by which the first weights are changed before.
    """
    trainer: Any = import_module("caffe2.python.examples.imagenet_trainer")
    workspace: Any = import_module("caffe2.python.workspace")
    run_once, run = workspace.RunNetOnce, workspace.RunNet
    rows: list[list[float]] = []

    def seeded(net: Any, *rest: Any) -> Any:
        if hasattr(net, "Proto"):
            for op in net.Proto().op:
                op.device_option.random_seed = zlib.crc32(op.output[0].encode()) & 0x7FFFFFFF
        done = run_once(net, *rest)
        if shake:
            workspace.FeedBlob(
                f"cpu_0/{WEIGHTS[0]}", workspace.FetchBlob(f"cpu_0/{WEIGHTS[0]}") * np.float32(1 + shake)
            )
        return done

    def step(*given: Any, **more: Any) -> Any:
        for name, value in fed(len(rows)).items() if feed else ():
            workspace.FeedBlob(name, value)
        done = run(*given, **more)
        rows.append([float(workspace.FetchBlob(f"cpu_0/{name}")) for name in NAMES])
        return done

    with ExitStack() as stack:
        stack.enter_context(patch.object(workspace, "RunNetOnce", seeded))
        stack.enter_context(patch.object(workspace, "RunNet", step))
        stack.enter_context(patch.object(sys, "argv", ["imagenet_trainer", *LINE, *line]))
        trainer.main()
    squares = {name: float(np.square(workspace.FetchBlob(f"cpu_0/{name}")).sum()) for name in WEIGHTS}
    return {"steps": rows, "squares": squares}


if __name__ == "__main__":
    target = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        line = ["--train_data", "null", "--file_store_path", folder]
        recorded = trained(line, feed=True)
        import_module("caffe2.python.workspace").ResetWorkspace()
        recorded["shaken"] = trained(line, feed=True, shake=1e-6)
        os.chdir(os.path.dirname(target))
    with open(target, "w") as file:
        json.dump(recorded, file, indent=1)
        file.write("\n")
