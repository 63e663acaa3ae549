"""`from caffe2.python import optimizer`: parameter updates, appended to a net after its gradients.

An operator that tazza does not have yet is refused when the update is added, by name.
"""

from __future__ import annotations

from caffe2.python._optimizer_adagrad import (
    AdagradOptimizer,
)
from caffe2.python._optimizer_adaptive import (
    AdadeltaOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GFtrlOptimizer,
    RmsPropOptimizer,
    StormOptimizer,
    WngradOptimizer,
    YellowFinOptimizer,
)
from caffe2.python._optimizer_base import (
    FP16_ENGINES,
    AuxOptimizerParams,
    Optimizer,
    _optimizer_instance_count,  # pyright: ignore[reportPrivateUsage]
)
from caffe2.python._optimizer_build import (
    _LEARNING_RATE_INJECTION,  # pyright: ignore[reportPrivateUsage]
    _build,  # pyright: ignore[reportPrivateUsage]
    _calc_norm_ratio,  # pyright: ignore[reportPrivateUsage]
    _get_param_to_device,  # pyright: ignore[reportPrivateUsage]
    add_weight_decay,
    build_adadelta,
    build_adagrad,
    build_adam,
    build_fp16_sgd,
    build_ftrl,
    build_gftrl,
    build_multi_precision_sgd,
    build_rms_prop,
    build_sgd,
    build_storm,
    build_wngrad,
    build_yellowfin,
    get_lr_injection,
    get_param_device,
    set_lr_injection,
)
from caffe2.python._optimizer_sgd import (
    FP16SgdOptimizer,
    MultiPrecisionSgdOptimizer,
    SgdOptimizer,
    WeightDecayBuilder,
)

__all__ = [
    "FP16_ENGINES",
    "_LEARNING_RATE_INJECTION",
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AuxOptimizerParams",
    "FP16SgdOptimizer",
    "FtrlOptimizer",
    "GFtrlOptimizer",
    "MultiPrecisionSgdOptimizer",
    "Optimizer",
    "RmsPropOptimizer",
    "SgdOptimizer",
    "StormOptimizer",
    "WeightDecayBuilder",
    "WngradOptimizer",
    "YellowFinOptimizer",
    "_build",
    "_calc_norm_ratio",
    "_get_param_to_device",
    "_optimizer_instance_count",
    "add_weight_decay",
    "build_adadelta",
    "build_adagrad",
    "build_adam",
    "build_fp16_sgd",
    "build_ftrl",
    "build_gftrl",
    "build_multi_precision_sgd",
    "build_rms_prop",
    "build_sgd",
    "build_storm",
    "build_wngrad",
    "build_yellowfin",
    "get_lr_injection",
    "get_param_device",
    "set_lr_injection",
]
