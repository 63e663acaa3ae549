"""Records out of a database of columns, such as `CachedReader` or the operator Save writes, in a random order."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from caffe2.python import core, scope, workspace
from caffe2.python.dataio import Reader
from caffe2.python.dataset import Dataset
from caffe2.python.schema import from_column_list

__all__ = ["DBFileReader", "Dataset", "Reader", "from_column_list"]


class DBFileReader(Reader):
    """Reads all columns of a database into memory, shuffles their records, and gives them in batches."""

    default_name_suffix = "db_file_reader"

    def __init__(
        self,
        db_path: str,
        db_type: str,
        name: str | None = None,
        batch_size: int = 100,
        loop_over: bool = False,
        field_names: Sequence[str] | None = None,
    ) -> None:
        """Describe a reader; nothing is read but the names of the columns, if they are not given.

        Args:
            db_path: of the database.
            db_type: such as `minidb` or `LevelDB`.
            name: of the reader and of the scope of its blobs; from the name of the file by default.
            batch_size: records of a batch.
            loop_over: whether reading begins anew at the end, over and over.
            field_names: of the columns, such as `Dataset.field_names` gives; with None the database is read into
                blobs of the present workspace, which are left there.

        Raises:
            AssertionError: there is no such type of database.
            DBError: it is to be read, and cannot be.
        """
        assert db_type in core.C.registered_dbs(), (
            f"db_type [{db_type}] is not available; there are {core.C.registered_dbs()}"
        )
        self.db_path = os.path.expanduser(db_path)
        self.db_type = db_type
        self.name = name or f"{self._extract_db_name_from_db_path()}_{self.default_name_suffix}"
        self.batch_size = batch_size
        self.loop_over = loop_over
        super().__init__(self._init_reader_schema(field_names))
        self.ds = Dataset(self._schema, self.name + "_dataset")
        self.ds_reader: Any = None

    def _extract_db_name_from_db_path(self) -> str:
        """Return the name of the file without the last suffix."""
        return os.path.splitext(os.path.basename(self.db_path))[0]

    def _init_reader_schema(self, field_names: Sequence[str] | None = None) -> Any:
        """Return the form of the records, of columns whose types nobody knows."""
        if field_names:
            return from_column_list(list(field_names))
        prefix = f"{scope.CurrentNameScope()}{self.name}/"
        load = core.CreateOperator(
            "Load", [], [], absolute_path=True, db=self.db_path, db_type=self.db_type, load_all=True, add_prefix=prefix
        )
        assert workspace.RunOperatorOnce(load), f"no blobs could be loaded from {self.db_path}"
        columns = [blob.removeprefix(prefix) for blob in workspace.Blobs() if blob.startswith(prefix)]
        return from_column_list(columns)

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Let a net read the columns and shuffle the records; once only."""
        if self.ds_reader is not None:
            return
        with core.NameScope(self.name):
            self.ds.init_empty(init_net)
        self._load_columns(init_net)
        self.ds_reader = self.ds.random_reader(init_net, batch_size=self.batch_size, loop_over=self.loop_over)
        self.ds_reader.sort_and_shuffle(init_net)
        self.ds_reader.computeoffset(init_net)

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """Add to a net what reads a batch."""
        assert self.ds_reader is not None, "setup_ex must be called first"
        return self.ds_reader.read(read_net)

    def _load_columns(self, net: Any) -> None:
        net.Load(
            [],
            self.ds.get_blobs(),
            db=self.db_path,
            db_type=self.db_type,
            absolute_path=True,
            source_blob_names=self.ds.field_names(),
        )
