"""Predictions of a conditional random field that follow its best path: see `crf`."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python.crf import CRFWithLoss


def crf_update_predictions(model: Any, crf_with_loss: CRFWithLoss, classes: Any) -> Any:
    """Add predictions (T, K) in which the largest score of each word is that of the best path."""
    nets = model.param_init_net, model.net
    return apply_crf(*nets, crf_with_loss.transitions, classes, crf_with_loss.num_classes)


def apply_crf(init_net: Any, net: Any, transitions: Any, predictions: Any, num_classes: int) -> Any:
    """Add the same to nets, with transitions (K + 2, K + 2)."""
    padded = CRFWithLoss.pad_predictions(predictions, init_net, net, num_classes)
    swapped = net.SwapBestPath([padded, net.ViterbiPath([padded, transitions])])
    words = net.RemovePadding([swapped], padding_width=1, end_padding_width=1)
    first = net.GivenTensorIntFill([], shape=[2], values=np.array([0, 0], np.int32))
    last = net.GivenTensorIntFill([], shape=[2], values=np.array([-1, -3], np.int32))
    return net.Slice([words, first, last])
