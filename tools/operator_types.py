"""Which element types operators take: the recorded column of Caffe2 beside that of tazza, and reasons for gaps.

`tests/data/types.json` is the column of Caffe2 (`tools/record_types.py` says how to read it). That of tazza follows
from the schemas. Where the two differ there is a reason: one of `GENERAL`, which hold wherever their condition does,
or one of `REASONS`, which is beside the operator and the letters that it is about.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, OpView, find_schema
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec
from tazza.testing.value import data_of
from tests.golden import Recording, recordings
from tools.record_types import ARGUMENTS, DATA, NAMES, NUMBERS, in_type, positions

REFUSED = "refused"

GENERAL = {
    "undefined": "what Caffe2 gives is undefined: bytes of another type, or of no one",
    "crash": "Caffe2 ends the process",
    "empty": "there are no elements, so that Caffe2 does not look at their type",
}
"""Reasons by what Caffe2 did."""

NO_SIZES = "an X that is no list of int64 has the shape of dX, which dY does not fit: Caffe2 reads behind it"

MIXED = "the lists of BooleanUnmask have one type: Caffe2 takes the bytes of one for elements of another"

REASONS = {
    ("BooleanUnmask", "X"): MIXED,
    ("ConcatBatchMatMulBatchGatherOp", "pairs"): "plans put it in the place of BatchGather, which takes both",
    ("LayerNormGradient", "dY Y mean std X"): "Caffe2 has the forward operator in float64 but not the gradient",
    ("LayerNormGradient", "dY Y mean std X gamma"): "Caffe2 has the forward operator in float64 but not the gradient",
    ("ReduceBackMeanGradient", "dY X"): NO_SIZES,
    ("ReduceBackSumGradient", "dY X"): NO_SIZES,
    ("ReduceFrontSumGradient", "dY X"): NO_SIZES,
}
"""(Operator, letters that are fed, or the argument) -> why tazza takes other types than Caffe2."""


@dataclass(frozen=True)
class Entry:
    """One question: a recorded run with some inputs, or an argument, in another element type; and Caffe2's answer."""

    recording: Recording
    fed: str
    dtype: str
    caffe2: str

    @property
    def name(self) -> str:
        """How results of it are named in `types.npz`, and in messages."""
        operator, case = self.recording.name.rsplit("-", 1)
        return f"{operator}/{case}/{self.fed}/{self.dtype}"

    @functools.cached_property
    def letters(self) -> str:
        """The letters that are fed, or the argument."""
        if self.fed in ARGUMENTS:
            return self.fed
        letters = self.view().input_letters
        return " ".join(dict.fromkeys(letters[i] for i in positions(self.fed)))

    def definition(self) -> OperatorDef:
        """Return the operator, with the argument where that is what is fed."""
        definition = OperatorDef()
        definition.CopyFrom(self.recording.definition)
        if self.fed in ARGUMENTS:
            kept = [argument for argument in definition.arg if argument.name != self.fed]
            del definition.arg[:]
            definition.arg.extend(kept)
            definition.arg.add(name=self.fed, i=NUMBERS[self.dtype])
        return definition

    def view(self) -> OpView:
        """Return the typed view of the operator."""
        definition = self.definition()
        return find_schema(definition.type).view(definition)

    def inputs(self) -> list[NDArray[Any]]:
        """Return the inputs."""
        names = self.recording.definition.input
        fed = {names[i] for i in positions(self.fed)}  # a blob may stand in several places
        pairs = zip(names, self.recording.inputs, strict=True)
        return [in_type(value, self.dtype) if name in fed else data_of(value) for name, value in pairs]

    @functools.cached_property
    def tazza(self) -> str:
        """Return what the schema says: the element types of the outputs, or `refused`."""
        given = self.inputs()
        specs = [TensorSpec(value.shape, DataType.of(value)) for value in given]
        try:
            op = self.view()
            found = op.schema.infer_specs(op, specs, lambda letter: given[op.input_letters.index(letter)]).specs
        except TazzaError:
            return REFUSED
        return ",".join(spec.dtype.label for spec in found if isinstance(spec, TensorSpec))

    def reason(self) -> str | None:
        """Return why the two may differ; None where they must not."""
        if self.caffe2 in GENERAL:
            return GENERAL[self.caffe2]
        if any(value.size == 0 for value in self.inputs()) and self.caffe2 != REFUSED:
            return GENERAL["empty"]
        return REASONS.get((self.recording.definition.type, self.letters))


@functools.cache
def entries(operator: str) -> tuple[Entry, ...]:
    """Return all questions about an operator, in the order of the file."""
    found = {one.name.rsplit("-", 1)[1]: one for one in recordings(operator)}
    return tuple(
        Entry(found[case], fed, name, row.get(name, REFUSED))
        for case, fed_rows in recorded()[operator].items()
        for fed, row in fed_rows.items()
        for name in NAMES
    )


@functools.cache
def recorded() -> dict[str, dict[str, dict[str, dict[str, str]]]]:
    """Return the table of Caffe2 for the operators that stand: operator -> case -> what was fed -> type -> outcome."""
    table = json.loads((DATA / "types.json").read_text())
    return {operator: table[operator] for operator in table if operator in SCHEMAS}


@functools.cache
def results() -> dict[str, bytes]:
    """Return the recorded bytes of outputs by the name of an entry."""
    with np.load(DATA / "types.npz", allow_pickle=False) as stored:
        ends = np.cumsum(stored["sizes"])
        every = stored["bytes"].tobytes()
        return {
            str(name): every[end - size : end]
            for name, size, end in zip(stored["names"], stored["sizes"], ends, strict=True)
        }
