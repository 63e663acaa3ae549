"""Sums over all but the channels by the library's own function for gradients of biases."""

from __future__ import annotations

from tazza.device import current_context
from tazza.device.cuda import queue_of
from tazza.engines.cudnn import KIND, NAME
from tazza.engines.cudnn.graph import TYPES, bias_of
from tazza.engines.cudnn.image import form_of
from tazza.engines.cudnn.launch import CudnnLaunch, Older
from tazza.engines.cudnn.library import CUDNN
from tazza.operator import Launch
from tazza.operator.channel_sum import CHANNEL_SUMS, ChannelSum
from tazza.tensor.offer import Offer, Unsupported

START_NS, BYTES_PER_NS = 20000.0, 1000.0
"""Seen on one H200 with cuDNN 9.28: the two biases of LeNet, 2.9 and 0.8 MB, took 45 us together."""


@CHANNEL_SUMS.solving(NAME, place=KIND, dtype=tuple(TYPES), help="cudnnConvolutionBackwardBias")
def solve(task: ChannelSum) -> Offer[Launch]:
    """Describe the blob as images of one row."""
    missing = CUDNN.missing()
    if missing is not None:
        raise Unsupported(missing)
    dims = (task.images, task.spots, task.channels) if task.last else (task.images, task.channels, task.spots)
    form = form_of(dims, task.last)
    given = (task.read, form), (task.written, bias_of(form))
    device = queue_of(current_context(task.place)).device
    work = Older(device, "cudnnConvolutionBackwardBias", task.dtype, *given)
    return Offer(CudnnLaunch((work,)), work.function, estimate_ns=START_NS + task.nbytes / BYTES_PER_NS)
