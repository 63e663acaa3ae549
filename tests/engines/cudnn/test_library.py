"""cuDNN: its handle, descriptors that end by themselves, its errors."""

from __future__ import annotations

import gc

import pytest

from tazza.device import current_context, stream_pool, streaming
from tazza.device.cuda import queue_of
from tazza.engines.cudnn.library import CUDNN, TensorDescriptor, version
from tazza.errors import KernelError
from tazza.tensor import CUDAPlace
from tests.cuda_there import why_no_device
from tests.device.cudnn_library import FakeCudnn

DEVICE = CUDAPlace(0)


def test_a_context_has_one_handle_and_each_stream_its_own() -> None:
    context = current_context(DEVICE)
    assert CUDNN.handle_of(context) == CUDNN.handle_of(context)
    with streaming(stream_pool(DEVICE).take()):
        assert CUDNN.handle_of(current_context(DEVICE)) != CUDNN.handle_of(context)
    assert int(version()) >= 90000


def test_what_it_refuses_is_an_error() -> None:
    device = queue_of(current_context(DEVICE)).device
    with pytest.raises(KernelError, match="cuDNN answers cudnnSetTensorNdDescriptor with status"):
        TensorDescriptor(device, 0, [3], [1])


@pytest.mark.skipif(why_no_device() is None, reason="the real library does not tell how many descriptors there are")
def test_descriptors_end_with_their_objects() -> None:
    library = CUDNN.functions().fake
    assert isinstance(library, FakeCudnn)
    made = TensorDescriptor(queue_of(current_context(DEVICE)).device, 0, [1, 2, 3, 4], [24, 12, 4, 1])
    handle = made.handle
    assert handle in library.tensors
    del made
    gc.collect()
    assert handle not in library.tensors
