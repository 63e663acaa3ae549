"""Tags of layers: what they are left out of, and where they run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from caffe2.python import context


class TagContext(context.DefaultManaged):
    """The tags that layers get while it is current."""

    def __init__(self, tags: Iterable[str] | None = None) -> None:
        """Begin with some tags, or none."""
        self.tags: list[str] = [] if tags is None else list(tags)

    def add_tags(self, tags: Iterable[str]) -> None:
        """Add tags behind the others."""
        self.tags.extend(tags)

    def remove_tags(self, tags: Iterable[str]) -> None:
        """Take back the last tags, which must be these."""
        given = list(tags)
        kept = len(self.tags) - len(given)
        assert self.tags[kept:] == given, f"the last tags are {self.tags[kept:]}, not {given}"
        del self.tags[kept:]


class Tags:
    """`with Tags(Tags.CPU_ONLY): ...`, or a decorator: layers that are added within have these tags."""

    EXCLUDE_FROM_TRAIN = "exclude_from_train"
    EXCLUDE_FROM_EVAL = "exclude_from_eval"
    EXCLUDE_FROM_PREDICTION = "exclude_from_prediction"
    EXCLUDE_FROM_ACCUMULATE_PRED = "exclude_from_accumulate_pred"
    PREPROCESSING = "preprocessing"
    HANDLE_AS_SPARSE_LAYER = "handle_as_sparse_layer"
    PREFER_GPU = "prefer_gpu"
    CPU_ONLY = "cpu_only"
    LOCAL = "local"
    SPARSE_SHARDED = "sparse_sharded"
    SPARSE_DONT_SHARD = "sparse_dont_shard"
    HOGWILD_DENSE = "hogwild_dense"
    COMPONENT = "component:"
    PIPELINE = "pipeline:"
    EXTRA_INFO = "extra_info:"
    EMPTY_TAG = "empty_tag"
    FEATURE_TRANSFORM = "feature_transform"
    FEATURE_TRANSFORM_SCHEMA = "feature_transform_schema"
    PREDICTION_SCHEMA = "prediction_schema"

    TRAIN_ONLY: ClassVar = [EXCLUDE_FROM_PREDICTION, EXCLUDE_FROM_EVAL, EXCLUDE_FROM_ACCUMULATE_PRED]
    EVAL_ONLY: ClassVar = [EXCLUDE_FROM_PREDICTION, EXCLUDE_FROM_TRAIN, EXCLUDE_FROM_ACCUMULATE_PRED]
    PREDICTION_ONLY: ClassVar = [EXCLUDE_FROM_TRAIN, EXCLUDE_FROM_EVAL, EXCLUDE_FROM_ACCUMULATE_PRED]
    DT_TAGS = (SPARSE_SHARDED, SPARSE_DONT_SHARD, COMPONENT, HOGWILD_DENSE)

    def __init__(self, tags: str | Iterable[str]) -> None:
        """Take a tag, or several."""
        self.tags: Any = [tags] if isinstance(tags, str) else tags

    def __enter__(self) -> Tags:
        TagContext.current().add_tags(self.tags)
        return self

    def __exit__(self, *error: object) -> None:
        TagContext.current().remove_tags(self.tags)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that adds layers with these tags."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return wrapper
