"""One copy of the library instead of several: wheels hold no links, so its file lies there under each of its names.

The names that are copies become links to the longest one, `libdnnl.so.3.2`, as the library's own installation has them.
Each is compared byte by byte and replaced in one step, so that other processes find the one or the other, and what they
have loaded stays. Installers list names and contents, which do not change: `pip check` and `pip uninstall` go on.
"""

from __future__ import annotations

import filecmp
import os
from contextlib import suppress
from pathlib import Path

from tazza.runtime.log import logger

NAMES = "libdnnl.so*"


def keep_one_copy(folder: Path) -> int:
    """Replace copies of the library in a folder by links, and return how many; none where it cannot be written."""
    files = [path for path in folder.glob(NAMES) if path.is_file() and not path.is_symlink()]
    if len(files) < 2 or not os.access(folder, os.W_OK):
        return 0
    kept = max(files, key=lambda path: (len(path.name), path.name))
    made = 0
    for path in sorted(set(files) - {kept}):
        link = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            if not filecmp.cmp(path, kept, shallow=False):
                continue
            link.symlink_to(kept.name)
            link.replace(path)
            made += 1
        except OSError as error:
            logger.info("%s stays a copy of %s: %s", path, kept.name, error)
            with suppress(OSError):
                link.unlink(missing_ok=True)
    return made
