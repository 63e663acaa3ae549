"""The trainer of ImageNet by its older name."""

from __future__ import annotations

from caffe2.python.examples.imagenet_trainer import (
    AddImageInput,
    AddNullInput,
    LoadModel,
    RunEpoch,
    SaveModel,
    Train,
    log,
    main,
)

__all__ = ["AddImageInput", "AddNullInput", "LoadModel", "RunEpoch", "SaveModel", "Train", "log", "main"]

if __name__ == "__main__":
    main()
