"""WNGrad: one step length for all parameters, which shrinks as gradients come, for whole parameters and for rows.

W are the parameters, dW their gradient, b (1) the inverse of the step length; lr (1) is the learning rate:

    W' = W + lr / (b + epsilon) dW;    b' = b + sum of dW^2 / (b + epsilon),  of rows: / b

It adds, so lr is negative. Source: Wu, Ward, Bottou 2018, arXiv 1803.02865, algorithm 1; Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, arg, blob, kernel, schema
from tazza.ops.optimizer.rows import INDICES, add_rows, require_rows
from tazza.ops.optimizer.update import NO_GRADIENT
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.tensor import TensorSpec
