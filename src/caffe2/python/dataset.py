"""`from caffe2.python import dataset`: data sets in blobs, one for each field of a record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from caffe2.python import core, workspace
from caffe2.python.dataio import Reader, Writer
from caffe2.python.schema import Field, InitEmptyRecord, Struct, from_blob_list, from_column_list

__all__ = ["Const", "Dataset", "InitEmptyRecord", "Reader", "Struct", "Writer", "execution_step_with_progress"]


class _DatasetReader(Reader):
    """Reads the records in the order in which they lie."""

    def __init__(
        self, dataset: Dataset, name: str | None, batch_size: int = 1, enforce_batch_size: bool = False
    ) -> None:
        super().__init__(dataset.content())
        self.dataset = dataset
        self.name = name if name else f"{dataset.name}_cursor"
        self.batch_size = batch_size
        self.enforce_batch_size = enforce_batch_size
        self.cursor: Any = None

    def setup_ex(self, init_net: Any, exit_net: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        del exit_net
        if self.cursor is None:
            self.cursor = init_net.CreateTreeCursor([], init_net.NextScopedBlob(self.name), fields=self.dataset.fields)

    def read(self, read_net: Any) -> tuple[Any, Any]:
        assert self.cursor, "setup not called."
        return self._read(read_net, "ReadNextBatch", [self.cursor])

    def _read(self, net: Any, type: str, sources: Sequence[Any], **arguments: Any) -> tuple[Any, Any]:
        """Add an operator that reads a batch; the data is over when the first field is empty."""
        content = self.dataset.content()
        with core.NameScope(net.NextName(self.name)):
            read = getattr(net, type)(
                [*sources, *content.field_blobs()],
                content.field_names(),
                batch_size=self.batch_size,
                enforce_batch_size=self.enforce_batch_size,
                **arguments,
            )
            fields = core.output_to_list(read)
            return net.IsEmpty([fields[0]]), fields

    def reset(self, net: Any) -> None:
        net.ResetCursor([self.cursor], [])


class _DatasetRandomReader(_DatasetReader):
    """Reads the records in the order of `indices`."""

    def __init__(
        self,
        dataset: Dataset,
        name: str | None,
        indices: Any,
        batch_size: int = 1,
        loop_over: bool = False,
        enforce_batch_size: bool = False,
    ) -> None:
        super().__init__(dataset, name, batch_size, enforce_batch_size)
        self.indices = indices
        self.loop_over = loop_over
        self.offsets: Any = None

    def computeoffset(self, net: Any) -> None:
        """Add to a net what finds where each record begins."""
        self.reset(net)
        self.offsets = net.ComputeOffset([self.cursor, *self.dataset.content().field_blobs()], "offsets")

    def sort_and_shuffle(
        self, net: Any, sort_by_field: str | None = None, shuffle_size: int = 1, batch_size: int = 1
    ) -> None:
        """Add to a net what makes the order: sorted by a field, if one is named, and shuffled within parts."""
        content, position = self.dataset.content(), -1
        if sort_by_field:
            assert sort_by_field in content.field_names(), "Must be valid field."
            position = content.field_names().index(sort_by_field)
        self.reset(net)
        self.indices = net.SortAndShuffle(
            [self.cursor, *content.field_blobs()],
            "indices",
            sort_by_field_idx=position,
            shuffle_size=shuffle_size,
            batch_size=batch_size,
        )

    def read(self, read_net: Any) -> tuple[Any, Any]:
        assert self.cursor, "setup_ex not called"
        assert self.indices, "sort_and_shuffle not called"
        assert self.offsets, "computeoffset not called"
        sources = [self.cursor, self.indices, self.offsets]
        return self._read(read_net, "ReadRandomBatch", sources, loop_over=self.loop_over)


class _DatasetWriter(Writer):
    """Appends records, once it is clear that they are whole."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self.mutex: Any = None

    def setup_ex(self, init_net: Any, exit_net: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- as above
        del exit_net
        if self.mutex is None:
            self.mutex = init_net.CreateMutex([])

    def write(self, writer_net: Any, fields: Any) -> None:
        assert self.mutex is not None, "setup not called."
        blobs = self._content.field_blobs()
        assert len(fields) == len(blobs), f"Expected {len(blobs)} fields, got {len(fields)}."
        writer_net.CheckDatasetConsistency(fields, [], fields=self._content.field_names())
        writer_net.AtomicAppend([self.mutex, *blobs, *fields], blobs)

    def commit(self, finish_net: Any) -> None:
        """Do nothing: what was appended is there."""


def Const(net: Any, value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Feed a value into a new blob now, and return it as an input of a net."""
    assert isinstance(net, core.Net), "net must be a core.Net instance."
    blob = net.AddExternalInput(net.NextName(prefix=name))
    workspace.FeedBlob(str(blob), np.array(value, dtype=dtype))
    return blob


def execution_step_with_progress(name: str, init_net: Any, substeps: Any, rows_read: Any) -> Any:
    """Return a step that prints a blob every five seconds while others run side by side."""
    del init_net
    report_net = core.Net("report_net")
    report_net.Print([rows_read], [])
    return core.execution_step(name, substeps, report_net=report_net, concurrent_substeps=True, report_interval=5)


class Dataset:
    """Records that lie in blobs, one for each field; `init_empty` or `init_from_dataframe` says which."""

    def __init__(self, fields: Any, name: str | None = None) -> None:
        """Be a data set of records of a form, a Struct or a list of names of fields."""
        assert isinstance(fields, list | Struct), "fields must be either a Struct or a list of raw field names."
        form: Any = from_column_list(cast("list[str]", fields)) if isinstance(fields, list) else fields
        self.schema: Field = form
        self.fields: list[str] = form.field_names()
        self.field_types: Any = form.field_types()
        self.name = name if name else "dataset"
        self.field_blobs: Any = form.field_blobs() if form.has_blobs() else None

    def trim(self, net: Any, multiple_of: int) -> None:
        """Add to a net what leaves a multiple of so many records."""
        net.TrimDataset(self.field_blobs, self.field_blobs, fields=self.fields, multiple_of=multiple_of)

    def init_empty(self, init_net: Any) -> None:
        """Have no records: empty blobs are fed now, and are inputs of the net."""
        form: Any = self.schema
        self.field_blobs = InitEmptyRecord(init_net, form.clone_schema()).field_blobs()

    def init_from_dataframe(self, net: Any, dataframe: Any) -> None:
        """Have the rows of a table of pandas: they are fed now, and the blobs are inputs of the net."""
        assert len(self.fields) == len(dataframe.columns), f"{len(dataframe.columns)} columns for {len(self.fields)}"
        self.field_blobs = [
            Const(net, dataframe.iloc[:, position].to_numpy(), name=field) for position, field in enumerate(self.fields)
        ]

    def get_blobs(self) -> Any:
        """Return the blobs."""
        return self.field_blobs

    def content(self) -> Any:
        """Return the blobs as a record."""
        return from_blob_list(self.schema, self.field_blobs)

    def field_names(self) -> list[str]:
        """Return the names of the fields."""
        return self.fields

    def reader(
        self,
        init_net: Any = None,
        cursor_name: str | None = None,
        batch_size: int = 1,
        enforce_batch_size: bool = False,
    ) -> Any:
        """Return a reader, whose cursor a net makes."""
        assert self.field_blobs, "Dataset not initialized."
        made = _DatasetReader(self, cursor_name, batch_size, enforce_batch_size)
        if init_net is not None:
            made.setup_ex(init_net, None)
        return made

    def random_reader(
        self,
        init_net: Any = None,
        indices: Any = None,
        cursor_name: str | None = None,
        batch_size: int = 1,
        loop_over: bool = False,
        enforce_batch_size: bool = False,
    ) -> Any:
        """Return a reader in the order of a blob of numbers of records, or of `sort_and_shuffle`."""
        assert self.field_blobs, "Dataset not initialized."
        made = _DatasetRandomReader(self, cursor_name, indices, batch_size, loop_over, enforce_batch_size)
        if init_net is not None:
            made.setup_ex(init_net, None)
        return made

    def writer(self, init_net: Any = None) -> Any:
        """Return a writer, whose mutex a net makes."""
        assert self.field_blobs, "Dataset not initialized."
        made = _DatasetWriter(self.content())
        if init_net is not None:
            made.setup_ex(init_net, None)
        return made
