"""A pair of files on images: what one does with a model that somebody else trained.

    python predict_pair.py FOLDER

FOLDER holds `init_net.pb` and `predict_net.pb`, as `mnist.py` leaves them.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import core, net_drawer, workspace


def crop_center(image: Any, cropx: int, cropy: int) -> Any:
    """Return the middle of an image."""
    y, x = image.shape[:2]
    startx, starty = x // 2 - (cropx // 2), y // 2 - (cropy // 2)
    return image[starty : starty + cropy, startx : startx + cropx]


def drawn_image(size: int = 40) -> Any:
    """Return a picture of a ring, in colours between 0 and 255: rows, columns, channels."""
    y, x = np.mgrid[:size, :size] - (size - 1) / 2.0
    ring = np.exp(-((np.hypot(x, y) - 7.0) ** 2) / 8.0)
    return (np.stack([ring, ring**2, ring], axis=2) * 255).astype(np.uint8)


def prepare(image: Any) -> Any:
    """Return a batch of one: cropped, grey, between 0 and 1, channels first."""
    grey = crop_center(image, 28, 28).astype(np.float32).mean(axis=2)
    return np.ascontiguousarray(grey[np.newaxis, np.newaxis] / 256)


def main(folder: str) -> dict[str, Any]:
    """Predict by `Predictor` and by nets; return all probabilities."""
    workspace.ResetWorkspace()
    with open(os.path.join(folder, "init_net.pb"), "rb") as file:
        init_net = file.read()
    with open(os.path.join(folder, "predict_net.pb"), "rb") as file:
        predict_net = file.read()
    images = np.concatenate([prepare(drawn_image()), prepare(255 - drawn_image())])

    predictor = workspace.Predictor(init_net, predict_net)
    found: dict[str, Any] = {"by_place": predictor.run([images])[0]}
    found["by_name"] = predictor.run({"data": images[:1]})[0]

    init_def, predict_def = caffe2_pb2.NetDef(), caffe2_pb2.NetDef()
    init_def.ParseFromString(init_net)
    predict_def.ParseFromString(predict_net)
    device = core.DeviceOption(caffe2_pb2.CPU, 0)
    init_def.device_option.CopyFrom(device)
    predict_def.device_option.CopyFrom(device)
    workspace.RunNetOnce(init_def)
    workspace.FeedBlob("data", images, device_option=device)
    workspace.CreateNet(predict_def, overwrite=True)
    workspace.RunNet(predict_def.name)
    found["by_nets"] = workspace.FetchBlob(predict_def.external_output[0])
    found["first_filters"] = workspace.FetchBlob("conv1_w")
    found["drawn_by"] = net_drawer.__name__
    print("most likely", found["by_place"].argmax(axis=1))
    return found


if __name__ == "__main__":
    main(sys.argv[1])
