"""Record what Caffe2 computes with nets of bytes that tazza made, into the files that hold them.

It runs on Python 3.8 too, where Caffe2 is:

    python3.8 tools/record_quantized.py FILE ...

A file (.npz) has `init` and `net`, messages as bytes, and `data`, the input; every output of the net is added.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def record(path: str) -> None:
    """Run the nets of a file and write it again, with their outputs."""
    from caffe2.proto import caffe2_pb2
    from caffe2.python import workspace

    with np.load(path, allow_pickle=False) as stored:
        held = {name: stored[name] for name in ("init", "net", "data")}
    nets = {name: caffe2_pb2.NetDef.FromString(held[name].tobytes()) for name in ("init", "net")}
    workspace.ResetWorkspace()
    workspace.RunNetOnce(nets["init"])
    workspace.FeedBlob("data", held["data"])
    workspace.RunNetOnce(nets["net"])
    found: dict[str, Any] = {f"out_{name}": workspace.FetchBlob(name) for name in nets["net"].external_output}
    np.savez_compressed(path, **held, **found)


if __name__ == "__main__":
    for each in sys.argv[1:]:
        record(each)
