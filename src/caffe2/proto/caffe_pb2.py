"""The old import name of `tazza.interop.caffe.caffe_pb2`: the messages of Caffe 1."""

from __future__ import annotations

from tazza.interop.caffe.caffe_pb2 import *  # noqa: F403 (the list of names is the generated module's)
