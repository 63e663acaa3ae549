"""Files of models from an address: what goes to the network, and only when it is called."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from tazza.errors import ArgumentError, UnavailableError
from tazza.runtime.files import AnyPath, atomic_write

PIECE_BYTES = 1 << 16


def download(
    url: str, path: AnyPath, *, progress: Callable[[float], object] | None = None, timeout_s: float = 60.0
) -> None:
    """Write what an address holds to a file, which is there once all of it is.

    Args:
        url: of `http` or `https`.
        path: the folder has to be there.
        progress: is told the share that has come, 0 to 1, where the address says how much there is.
        timeout_s: how long to wait for an answer, and for each piece.

    Raises:
        ArgumentError: another kind of address.
        UnavailableError: nobody answers, or less comes than was said.
        FileError: the file cannot be written.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise ArgumentError(f"{url!r} is no address of the web", hint="it begins with https://")
    with atomic_write(path) as file:
        for piece in _pieces(url, progress, timeout_s):
            file.write(piece)


def _pieces(url: str, progress: Callable[[float], object] | None, timeout_s: float) -> Iterator[bytes]:
    come = 0
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            said = answer.headers.get("Content-Length", "")
            whole = int(said) if said.isdecimal() else None
            while piece := answer.read(PIECE_BYTES):
                come += len(piece)
                yield piece
                if progress is not None and whole:
                    progress(min(1.0, come / whole))
    except urllib.error.HTTPError as error:
        raise UnavailableError(f"{url!r} answers {error.code} ({error.reason})") from error
    except (OSError, http.client.HTTPException) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise UnavailableError(f"cannot get {url!r}: {reason}", hint="is there a network?") from error
    if whole is not None and come < whole:
        raise UnavailableError(f"{url!r} said {whole} bytes, {come} came")
