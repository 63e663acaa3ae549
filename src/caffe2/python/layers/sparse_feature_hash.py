"""Ids of any size, brought below a limit."""

from __future__ import annotations

from typing import Any

import numpy as np

from caffe2.python import core, schema
from caffe2.python.layers.layers import IdList, IdScoreList, ModelLayer
from caffe2.python.layers.tags import Tags


class SparseFeatureHash(ModelLayer):
    """Lists of ids, or maps from ids to scores, with each id hashed below `modulo`, or its remainder."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        seed: int = 0,
        modulo: int | None = None,
        use_hashing: bool = True,
        use_divide_mod: bool = False,
        divisor: int | None = None,
        name: str = "sparse_feature_hash",
        **kwargs: Any,
    ) -> None:
        """Add a layer.

        Args:
            model: a `LayerModelHelper`.
            input_record: lists of ids, or maps whose keys are ids.
            seed: of the hash.
            modulo: the limit; by default the desired hash size that the ids know, or their limit.
            use_hashing: whether ids are hashed; else it is their remainder.
            use_divide_mod: whether ids are divided by `divisor` before.
            divisor: at least 1.
            name: of the layer.
            kwargs: kept.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert not (use_hashing and use_divide_mod), (
            "use_hashing and use_divide_mod cannot be set true at the same time."
        )
        if use_divide_mod:
            assert divisor is not None and divisor >= 1, f"Unexpected divisor: {divisor}"
            fill = ("GivenTensorInt64Fill", {"values": np.array([divisor])})
            self.divisor = self.create_param("divisor", [1], fill, model.NoOptim)
        self.seed, self.use_hashing, self.use_divide_mod = seed, use_hashing, use_divide_mod
        self._form = next((form for form in (IdList, IdScoreList) if schema.equal_schemas(input_record, form)), None)
        assert self._form is not None, "Input type must be one of (IdList, IdScoreList)"
        known = self._ids(input_record).metadata
        self.modulo: int = modulo or self.extract_hash_size(known)
        with core.NameScope(name):
            self.output_schema = schema.NewRecord(model.net, self._form)
        self._ids(self.output_schema).set_metadata(
            schema.Metadata(
                categorical_limit=self.modulo,
                feature_specs=known.feature_specs if known else None,
                expected_value=known.expected_value if known else None,
            )
        )
        assert self.modulo >= 1, f"Unexpected modulo: {self.modulo}"
        if input_record.lengths.metadata:
            self.output_schema.lengths.set_metadata(input_record.lengths.metadata)
        self.tags.update([Tags.CPU_ONLY])

    def _ids(self, record: Any) -> Any:
        """Return the column of ids."""
        return record.items if self._form is IdList else record.keys

    def extract_hash_size(self, metadata: Any) -> int:
        """Return the limit that ids know."""
        if metadata.feature_specs and metadata.feature_specs.desired_hash_size:
            return metadata.feature_specs.desired_hash_size
        assert metadata.categorical_limit is not None, "desired_hash_size or categorical_limit must be set"
        return metadata.categorical_limit

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        source, target = self.input_record, self.output_schema
        net.Copy(source.lengths(), target.lengths())
        if self._form is IdScoreList:
            net.Copy(source.values(), target.values())
        ids, made = self._ids(source)(), self._ids(target)()
        if self.use_hashing:
            net.IndexHash(ids, made, seed=self.seed, modulo=self.modulo)
            return
        if self.use_divide_mod:
            ids = net.Div([ids, self.divisor], [net.NextScopedBlob("quotient")])
        net.Mod(ids, made, divisor=self.modulo, sign_follow_divisor=True)
