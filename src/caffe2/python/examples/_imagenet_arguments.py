"""What the trainer of ImageNet takes on its command line."""

from __future__ import annotations

import argparse
from typing import Any, Literal

WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def _truth(word: str) -> bool:
    return WORDS[word.lower()]


TEXTS: dict[str, tuple[str | None, str]] = {
    "test_data": (None, "path of the test images"),
    "db_type": ("lmdb", "kind of the databases, lmdb or leveldb"),
    "gpus": (None, "numbers of the devices, with commas between them"),
    "run_id": (None, "what tells this run from others where ranks meet"),
    "redis_host": (None, "server where ranks meet"),
    "file_store_path": ("/tmp", "folder where ranks meet, and where models are written to"),
    "save_model_name": ("resnext_model", "how the files of models begin"),
    "load_model_path": (None, "a model that was written; training goes on from it"),
    "distributed_transport": ("tcp", "what ranks talk by, tcp or ibverbs"),
    "distributed_interfaces": ("", "network interfaces that ranks use"),
}
NUMBERS: dict[str, tuple[int, str]] = {
    "num_layers": (50, "layers of the ResNeXt"),
    "resnext_num_groups": (1, "groups of its convolutions"),
    "resnext_width_per_group": (64, "channels of each group"),
    "test_epoch_size": (50000, "number of test images"),
    "num_gpus": (1, "number of devices, unless --gpus says which"),
    "num_channels": (3, "color channels"),
    "image_size": (224, "images are cropped to this size, in pixels"),
    "num_labels": (1000, "number of labels"),
    "batch_size": (32, "images of a batch, on all devices together"),
    "epoch_size": (1500000, "images of an epoch, on all machines together"),
    "num_epochs": (1000, "number of epochs"),
    "cudnn_workspace_limit_mb": (64, "memory that a convolution may take, in MB"),
    "num_shards": (1, "number of ranks"),
    "shard_id": (0, "number of this rank"),
    "redis_port": (6379, "port of the server"),
    "first_iter_timeout": (1200, "the first iteration of an epoch ends within this time, in seconds"),
    "timeout": (60, "each other one ends within this time, in seconds"),
}
RATES: dict[str, tuple[float, str]] = {
    "base_learning_rate": (0.1, "learning rate to begin with"),
    "weight_decay": (1e-4, "weight of the squares of the parameters"),
}
SWITCHES: dict[str, str] = {
    "use_cpu": "train on the CPU",
    "use_nccl": "sum gradients of GPUs by NCCL",
    "float16_compute": "compute in float16 where it can be",
    "enable_tensor_core": "use tensor cores where there are some",
}
CHANNELS = {
    "image_mean_per_channel": "mean of each channel",
    "image_std_per_channel": "standard deviation of each channel",
}


def arguments(given: list[str] | None = None) -> Any:
    """Return the arguments of a command line, by default the one of this process.

    >>> arguments(["--train_data", "null", "--use_cpu"]).batch_size
    32
    """
    parser = argparse.ArgumentParser(description="Caffe2: ImageNet Trainer")
    parser.add_argument("--train_data", type=str, required=True, help="path of the images, or null for noise")
    for table, kind in ((TEXTS, str), (NUMBERS, int), (RATES, float)):
        for name, (default, text) in table.items():
            parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    for name, text in CHANNELS.items():
        parser.add_argument(f"--{name}", type=float, nargs="+", help=text)
    switch: Literal["store_true"] = "store_true"
    for name, text in SWITCHES.items():
        parser.add_argument(f"--{name}", action=switch, help=text)
    parser.add_argument("--use_ideep", type=_truth, default=False, help="use oneDNN by the name of ideep")
    parser.add_argument("--dtype", default="float", choices=["float", "float16"], help="numbers of the net")
    parser.add_argument("--model", default="resnext", const="resnext", nargs="?", choices=["shufflenet", "resnext"])
    return parser.parse_args(given)
