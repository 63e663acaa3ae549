"""Devices of tests that ask for IDEEP, which is an engine in tazza and no device."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis.strategies import SearchStrategy

from caffe2.python import hypothesis_test_util as hu
from tazza.proto import PROTO_IDEEP, DeviceOption

cpu_do = hu.cpu_do
ideep_do = DeviceOption(device_type=PROTO_IDEEP)
device_options = [*hu.device_options, ideep_do]


def device_checker_device_options() -> SearchStrategy[list[DeviceOption]]:
    """Draw all devices."""
    return st.just(device_options)


def gradient_checker_device_option() -> SearchStrategy[DeviceOption]:
    """Draw a device."""
    return st.sampled_from(device_options)


gcs = {"gc": gradient_checker_device_option(), "dc": device_checker_device_options()}
gcs_cpu_only = hu.gcs_of([cpu_do])
gcs_ideep_only = hu.gcs_of([ideep_do])
gcs_cpu_ideep = hu.gcs_of([cpu_do, ideep_do])
