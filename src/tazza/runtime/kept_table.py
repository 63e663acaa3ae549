"""Tables of what was measured, in the folder of compiled code: later processes need not measure it again.

    TABLE = KeptTable("machine.json", "models of machines")
    entries = TABLE.read(); TABLE.write({**entries, key: found})

A table is an object of JSON. Its owner checks what the entries are: anybody may have written them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tazza.data_class import dataclass
from tazza.errors import FileError, FormatError
from tazza.runtime.files import kind_of, make_folder, read_json, shown, write_bytes_atomically
from tazza.runtime.log import logger
from tazza.runtime.native_code import cache_folder


@dataclass(frozen=True, slots=True)
class KeptTable:
    """The table in a file of that name; `what` are its entries, for messages."""

    file: str
    what: str

    @property
    def path(self) -> Path | None:
        """Where it is, or will be; None where there is no folder to keep it in."""
        folder = cache_folder()
        return None if folder is None else folder / self.file

    def read(self) -> dict[str, Any]:
        """Return its entries: none where it is missing or, which is told, broken."""
        path = self.path
        try:
            found: Any = {} if path is None or kind_of(path) is None else read_json(path, f"table of {self.what}")
            if not isinstance(found, dict):
                raise FormatError(f"{shown(path)} holds other things")
        except (FileError, FormatError) as error:
            logger.warning("stored %s are not used: %s", self.what, error.message)
            return {}
        return found  # pyright: ignore[reportUnknownVariableType] -- names of JSON are texts

    def write(self, entries: Mapping[str, Any]) -> None:
        """Replace its entries, where there is a folder to keep it in.

        Raises:
            FileError: it cannot be written.
        """
        path = self.path
        if path is not None:
            make_folder(path.parent, mode=0o700)
            write_bytes_atomically(path, json.dumps(entries, indent=0).encode())
