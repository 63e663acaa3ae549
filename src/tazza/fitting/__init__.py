"""Training classifiers of pictures: data, augmentation, nets, what is taken over from others, and the loop.

The names below are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tazza.runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from tazza.fitting.augmentation import Augmentation
    from tazza.fitting.fitted import Fitted, fit, fit_options
    from tazza.fitting.rates import find_rate
    from tazza.fitting.solver import Solver
    from tazza.fitting.source import Source, find_source
    from tazza.fitting.training import FitOptions, PictureTraining

__all__ = [
    "Augmentation",
    "FitOptions",
    "Fitted",
    "PictureTraining",
    "Solver",
    "Source",
    "find_rate",
    "find_source",
    "fit",
    "fit_options",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".augmentation": ("Augmentation",),
        ".fitted": ("Fitted", "fit", "fit_options"),
        ".rates": ("find_rate",),
        ".solver": ("Solver",),
        ".source": ("Source", "find_source"),
        ".training": ("FitOptions", "PictureTraining"),
    },
)
