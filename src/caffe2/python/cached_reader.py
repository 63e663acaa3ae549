"""Records of another reader, kept in a database: read from their source once, from there ever after."""

from __future__ import annotations

import os
from typing import Any

from caffe2.python import core
from caffe2.python.db_file_reader import DBFileReader
from caffe2.python.pipeline import pipe
from caffe2.python.task import Cluster, TaskGroup

__all__ = ["CachedReader", "Cluster", "DBFileReader", "TaskGroup", "pipe"]

NUM_THREADS = 16
"""That many read from the source at a time, as it was."""


class CachedReader(DBFileReader):
    """Reads from a database what another reader gives; the step of `build_cache_step` makes it.

    reader = CachedReader(slow_reader, "cache.db", "minidb")
    session.run(reader.build_cache_step())
    pipe(reader, ...)
    """

    default_name_suffix = "cached_reader"

    def __init__(
        self,
        original_reader: Any,
        db_path: str,
        db_type: str = "LevelDB",
        name: str | None = None,
        batch_size: int = 100,
        loop_over: bool = False,
    ) -> None:
        """Keep what `original_reader` gives in a database; the other arguments are those of `DBFileReader`.

        Raises:
            AssertionError: there is no such type of database, or the reader does not say what its records are.
        """
        self.original_reader = original_reader
        super().__init__(db_path, db_type, name, batch_size, loop_over)

    def _init_reader_schema(self, *args: Any, **kwargs: Any) -> Any:
        """Return the form of the records, which is that of the other reader."""
        return self.original_reader._schema

    def build_cache_step(self, overwrite: bool = False) -> Any:
        """Return a step that fills the database, and does nothing if it is there and may not be overwritten."""
        if os.path.exists(self.db_path) and not overwrite:
            return core.execution_step("build_step", [])
        init_net, save_net = core.Net("init"), core.Net("save")
        with Cluster(), core.NameScope(self.name), TaskGroup() as copying:
            self.ds.init_empty(init_net)
            pipe(self.original_reader, self.ds.writer(), num_threads=NUM_THREADS)
            copied = copying.to_task().get_step()
        self._save_field_blobs_to_db_file(save_net)
        return core.execution_step("build_cache", [init_net, copied, save_net])

    def _save_field_blobs_to_db_file(self, net: Any) -> None:
        """Let a net write the columns; the database is there when all of them are."""
        net.Save(
            self.ds.get_blobs(),
            [],
            db=self.db_path,
            db_type=self.db_type,
            blob_name_overrides=self.ds.field_names(),
            absolute_path=True,
        )
