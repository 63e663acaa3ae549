"""Any operators as a layer: a function adds them to a net."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

from caffe2.python import core, schema, scope, workspace
from caffe2.python.layers.layers import ModelLayer

logger = logging.getLogger(__name__)


class Functional(ModelLayer):
    """A layer of what `function(net, input_record, output_record)` adds."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_names_or_num: int | str | Sequence[str] | schema.Field,
        function: Callable[..., Any],
        name: str = "functional",
        output_dtypes: Any = None,
        tags: Any = None,
        **kwargs: Any,
    ) -> None:
        """Add a layer of one name, of several, or of as many outputs as a number says, or one that writes a record.

        Types of outputs are inferred where they are not given; those of a record stay as they are.
        """
        record = schema.as_record(input_record)
        super().__init__(model, name, record, tags=tags, **kwargs)
        self._function = function
        self._kwargs = kwargs
        if isinstance(output_names_or_num, schema.Field):
            self.output_schema = schema.from_blob_list(output_names_or_num, output_names_or_num.field_blobs())
            return
        self.output_schema = self._outputs(output_names_or_num)
        if output_dtypes is not None:
            scalars = self.output_schema.all_scalars()
            types: list[Any] = [output_dtypes] * len(scalars)  # a tuple is a type and a shape
            if isinstance(output_dtypes, list):
                types = [*cast("list[Any]", output_dtypes)]
            for scalar, dtype in zip(scalars, types, strict=True):
                scalar.set_type(dtype)
        elif any(dtype == schema.Scalar().dtype for dtype in record.field_types()):
            logger.info("%s: a column of unknown type comes in, what goes out is unknown as well", self.name)
        else:
            self._infer()

    def _outputs(self, wanted: int | str | Sequence[str]) -> Any:
        if isinstance(wanted, int):
            fields = schema.RawTuple(wanted)
        else:
            names = [wanted] if isinstance(wanted, str) else wanted
            fields = schema.Struct(*((one, schema.Scalar()) for one in names))
        with scope.NameScope(self.name, reset=True):
            made = schema.NewRecord(self.model.net, fields)
        return made[0] if len(made) == 1 else made

    def _infer(self) -> None:
        net = core.Net("_temp_type_and_shape_inference_net")
        columns = list(zip(map(str, self.input_record.field_blobs()), self.input_record.field_types(), strict=True))
        self._function(net, self.input_record, self.output_schema, **self._kwargs)
        shapes, types = workspace.InferShapesAndTypes(
            [net],
            {blob: [0, *kind.shape] for blob, kind in columns},
            blob_types={blob: schema.data_type_for_dtype(kind) for blob, kind in columns},
        )
        for scalar in self.output_schema.all_scalars():
            blob = str(scalar())
            if blob not in types or blob not in shapes:
                continue
            shape = shapes[blob]
            rows = shape[1:] if shape and shape[0] == 0 else shape
            scalar.set_type((schema.dtype_for_core_type(types[blob]), tuple(rows)))

    def add_ops(self, net: Any) -> None:
        """Add what the function adds."""
        self._function(net, self.input_record, self.output_schema, **self._kwargs)
