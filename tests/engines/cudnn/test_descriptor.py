"""Descriptors of graphs: of one kind, closed once, ended with their objects."""

from __future__ import annotations

import gc

import pytest

from tazza.device import current_context
from tazza.engines.cudnn.descriptor import one_of, whole
from tazza.engines.cudnn.graph import operation_graph
from tazza.engines.cudnn.launch import maker_of
from tazza.engines.cudnn.library import CUDNN
from tazza.errors import KernelError
from tests.cuda_there import why_no_device
from tests.engines.cudnn.there import DEVICE, PROBLEM


def test_descriptors_are_of_one_kind_and_closed_once() -> None:
    maker = maker_of(current_context(DEVICE))
    with pytest.raises(KernelError):
        maker.make("TENSOR", TENSOR_UNIQUE_ID=whole(1))
    with pytest.raises(KernelError):
        maker.make("TENSOR", CONVOLUTION_SPATIAL_DIMS=whole(2))
    with pytest.raises(KernelError):
        maker.make("TENSOR", TENSOR_DIMENSIONS=one_of("DATA_TYPE", "DATA_FLOAT"))


def test_descriptors_end_with_their_objects() -> None:
    maker = maker_of(current_context(DEVICE))
    graph = operation_graph(maker, PROBLEM)
    handle = graph.handle
    del graph
    gc.collect()
    if why_no_device() is not None:
        assert handle not in CUDNN.functions().fake.descriptors
