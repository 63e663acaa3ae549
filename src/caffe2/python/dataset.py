"""Sets of records in memory: every column is a blob, cursors read batches of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from caffe2.python import core, workspace
from caffe2.python.dataio import Reader, Writer
from caffe2.python.schema import InitEmptyRecord, Struct, from_blob_list, from_column_list

__all__ = ["Const", "Dataset", "execution_step_with_progress"]


class _CursorReader(Reader):
    """Reads from a data set with a cursor of its own, or of that name."""

    def __init__(self, dataset: Dataset, name: str | None, batch_size: int, enforce_batch_size: bool) -> None:
        super().__init__(dataset.content())
        self.dataset = dataset
        self.name = name or f"{dataset.name}_cursor"
        self.batch_size = batch_size
        self.enforce_batch_size = enforce_batch_size
        self.cursor: Any = None

    def setup_ex(self, init_net: Any, exit_net: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        """Make the cursor."""
        del exit_net
        if self.cursor is None:
            blob = init_net.NextScopedBlob(self.name)
            self.cursor = init_net.CreateTreeCursor([], blob, fields=self.dataset.fields)

    def reset(self, net: Any) -> None:
        """Let the reading begin anew."""
        net.ResetCursor([self.cursor], [])

    def _next(self, read_net: Any, operator: str, heads: Sequence[Any], **more: Any) -> tuple[Any, Any]:
        """Add an operator that reads a batch, and what says that it is empty."""
        content = self.dataset.content()
        with core.NameScope(read_net.NextName(self.name)):
            read = getattr(read_net, operator)(
                [self.cursor, *heads, *content.field_blobs()],
                content.field_names(),
                batch_size=self.batch_size,
                enforce_batch_size=self.enforce_batch_size,
                **more,
            )
            fields = core.output_to_list(read)
            return read_net.IsEmpty([fields[0]]), fields


class _DatasetReader(_CursorReader):
    """Reads records one batch behind the other; several nets may share its cursor."""

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """Add to a net what reads a batch."""
        assert self.cursor, "setup not called."
        return self._next(read_net, "ReadNextBatch", [])


class _DatasetRandomReader(_CursorReader):
    """Reads records in the order of a blob of indices, such as `sort_and_shuffle` makes."""

    def __init__(
        self,
        dataset: Dataset,
        name: str | None,
        indices: Any,
        batch_size: int,
        loop_over: bool,
        enforce_batch_size: bool,
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
        """Add to a net what makes an order: by a field, then batches shuffled within each `shuffle_size` of them."""
        content = self.dataset.content()
        place = -1
        if sort_by_field:
            assert sort_by_field in content.field_names(), f"{sort_by_field} is none of {content.field_names()}"
            place = content.field_names().index(sort_by_field)
        self.reset(net)
        self.indices = net.SortAndShuffle(
            [self.cursor, *content.field_blobs()],
            "indices",
            sort_by_field_idx=place,
            shuffle_size=shuffle_size,
            batch_size=batch_size,
        )

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """Add to a net what reads a batch."""
        assert self.cursor, "setup_ex not called"
        assert self.indices, "sort_and_shuffle not called"
        assert self.offsets, "computeoffset not called"
        return self._next(read_net, "ReadRandomBatch", [self.indices, self.offsets], loop_over=self.loop_over)


class _DatasetWriter(Writer):
    """Appends batches to a data set, one writer at a time."""

    def __init__(self, content: Any) -> None:
        self._content = content
        self.mutex: Any = None

    def setup_ex(self, init_net: Any, exit_net: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- these names are the old ones
        """Make what lets one writer in."""
        del exit_net
        if self.mutex is None:
            self.mutex = init_net.CreateMutex([])

    def write(self, writer_net: Any, fields: Any) -> None:
        """Add to a net what checks a batch against the form of the records, and appends it."""
        assert self.mutex is not None, "setup not called."
        columns = self._content.field_blobs()
        assert len(fields) == len(columns), f"Expected {len(columns)} fields, got {len(fields)}."
        writer_net.CheckDatasetConsistency(fields, [], fields=self._content.field_names())
        writer_net.AtomicAppend([self.mutex, *columns, *fields], columns)

    def commit(self, finish_net: Any) -> None:
        """Nothing: what is appended is there."""


def Const(net: Any, value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Return a new blob of the present workspace with a value, an external input of a net."""
    assert isinstance(net, core.Net), "net must be a core.Net instance."
    blob = net.AddExternalInput(net.NextName(prefix=name))
    workspace.FeedBlob(str(blob), np.array(value, dtype=dtype))
    return blob


def execution_step_with_progress(name: str, init_net: Any, substeps: Any, rows_read: Any) -> Any:
    """Return a step that prints every five seconds how many rows were read."""
    del init_net
    report_net = core.Net("report_net")
    report_net.Print([rows_read], [])
    return core.execution_step(name, substeps, report_net=report_net, concurrent_substeps=True, report_interval=5)


def form_of(fields: Any) -> Any:
    """Return a `schema.Struct`, or the one of columns with these names."""
    assert isinstance(fields, (list, Struct)), "fields must be either a Struct or a list of raw field names."
    return from_column_list(cast("list[str]", fields)) if isinstance(fields, list) else fields


class Dataset:
    """Records of one form, in memory: `init_empty` or `init_from_dataframe` makes the blobs of the columns."""

    def __init__(self, fields: Any, name: str | None = None) -> None:
        """Describe a data set by a `schema.Struct`, or by the names of its columns."""
        form = form_of(fields)
        self.schema = form
        self.fields = form.field_names()
        self.field_types = form.field_types()
        self.name = name or "dataset"
        self.field_blobs: Any = form.field_blobs() if form.has_blobs() else None

    def trim(self, net: Any, multiple_of: int) -> None:
        """Add to a net what cuts off the last records, so that their number is a multiple."""
        net.TrimDataset(self.field_blobs, self.field_blobs, fields=self.fields, multiple_of=multiple_of)

    def init_empty(self, init_net: Any) -> None:
        """Let a net make the columns, without records."""
        self.field_blobs = InitEmptyRecord(init_net, self.schema.clone_schema()).field_blobs()

    def init_from_dataframe(self, net: Any, dataframe: Any) -> None:
        """Feed the columns of a data frame into the present workspace, as external inputs of a net."""
        columns = dataframe.columns
        assert len(self.fields) == len(columns), f"{len(columns)} columns for the fields {self.fields}"
        self.field_blobs = [
            Const(net, dataframe[column].to_numpy(), name=field)
            for field, column in zip(self.fields, columns, strict=True)
        ]

    def get_blobs(self) -> Any:
        """Return the blobs of the columns."""
        return self.field_blobs

    def content(self) -> Any:
        """Return the columns as a record."""
        return from_blob_list(self.schema, self.field_blobs)

    def field_names(self) -> list[str]:
        """Return the names of the columns."""
        return self.fields

    def reader(
        self,
        init_net: Any = None,
        cursor_name: str | None = None,
        batch_size: int = 1,
        enforce_batch_size: bool = False,
    ) -> _DatasetReader:
        """Return a reader of the records in their order; nobody may append meanwhile.

        Args:
            init_net: where its cursor is made, if at once.
            cursor_name: of the cursor's blob.
            batch_size: records of a batch.
            enforce_batch_size: whether what is left at the end, and is less, is not read.
        """
        assert self.field_blobs, "Dataset not initialized."
        return self._ready(_DatasetReader(self, cursor_name, batch_size, enforce_batch_size), init_net)

    def random_reader(
        self,
        init_net: Any = None,
        indices: Any = None,
        cursor_name: str | None = None,
        batch_size: int = 1,
        loop_over: bool = False,
        enforce_batch_size: bool = False,
    ) -> _DatasetRandomReader:
        """Return a reader of the records in the order of `indices`, over and over with `loop_over`."""
        assert self.field_blobs, "Dataset not initialized."
        made = _DatasetRandomReader(self, cursor_name, indices, batch_size, loop_over, enforce_batch_size)
        return self._ready(made, init_net)

    def writer(self, init_net: Any = None) -> _DatasetWriter:
        """Return a writer that appends; nobody may read meanwhile."""
        assert self.field_blobs, "Dataset not initialized."
        return self._ready(_DatasetWriter(self.content()), init_net)

    def _ready(self, made: Any, init_net: Any) -> Any:
        if init_net is not None:
            made.setup_ex(init_net, None)
        return made
