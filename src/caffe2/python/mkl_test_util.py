"""Devices of tests that ask for MKL-DNN, which is an engine in tazza and no device."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.strategies import SearchStrategy

from caffe2.python import hypothesis_test_util as hu
from caffe2.python import workspace
from tazza.proto import PROTO_MKLDNN, DeviceOption

cpu_do = hu.cpu_do
gpu_do = hu.gpu_do
mkl_do = DeviceOption(device_type=PROTO_MKLDNN)
device_options = hu.device_options + ([mkl_do] if workspace.C.has_mkldnn else [])


def device_checker_device_options() -> SearchStrategy[list[DeviceOption]]:
    """Draw all devices."""
    return st.just(device_options)


def gradient_checker_device_option() -> SearchStrategy[DeviceOption]:
    """Draw a device."""
    return st.sampled_from(device_options)


gcs = {"gc": gradient_checker_device_option(), "dc": device_checker_device_options()}
gcs_cpu_only = hu.gcs_of([cpu_do])
gcs_gpu_only = hu.gcs_of([gpu_do])
gcs_mkl_only = hu.gcs_of([mkl_do])
gcs_cpu_mkl = hu.gcs_of([cpu_do, mkl_do])
