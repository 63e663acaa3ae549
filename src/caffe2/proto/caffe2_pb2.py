"""The old import name of `tazza.proto.caffe2_pb2`: the same classes, and the short device names that scripts use."""

from __future__ import annotations

from tazza.proto.caffe2_pb2 import *  # noqa: F403 (the list of names is the generated module's)
from tazza.proto.caffe2_pb2 import (
    PROTO_COMPILE_TIME_MAX_DEVICE_TYPES,
    PROTO_CPU,
    PROTO_CUDA,
    PROTO_HIP,
    PROTO_IDEEP,
    PROTO_MKLDNN,
    PROTO_OPENCL,
    PROTO_OPENGL,
)

CPU = PROTO_CPU
CUDA = PROTO_CUDA
MKLDNN = PROTO_MKLDNN
OPENGL = PROTO_OPENGL
OPENCL = PROTO_OPENCL
IDEEP = PROTO_IDEEP
HIP = PROTO_HIP
COMPILE_TIME_MAX_DEVICE_TYPES = PROTO_COMPILE_TIME_MAX_DEVICE_TYPES
