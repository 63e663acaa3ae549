"""Files come from an address whole, or not at all."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tazza.errors import ArgumentError, FileError, UnavailableError
from tazza.interop.download import download

CONTENT = bytes(range(256)) * 999


class Answers(BaseHTTPRequestHandler):
    """Gives `CONTENT`; of `/short` it says more than it gives, at `/silent` it does not say how much."""

    def do_GET(self) -> None:
        """Answer."""
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/silent":
            self.send_header("Content-Length", str(len(CONTENT) + 5 * (self.path == "/short")))
        self.end_headers()
        self.wfile.write(CONTENT)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("path", ["/file", "/silent"])
def test_what_comes_is_what_lies_there(address: str, path: str, tmp_path: Path) -> None:
    shares: list[float] = []
    download(address + path, tmp_path / "f", progress=shares.append)
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert shares == sorted(shares)
    assert shares[-1:] == ([] if path == "/silent" else [1.0])


@pytest.mark.parametrize(("path", "said"), [("/gone", "answers 404"), ("/short", "bytes")])
def test_nothing_half_is_left(address: str, path: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=said):
        download(address + path, tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_nobody_answers(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"cannot get 'http://127\.0\.0\.1:9/f'"):
        download("http://127.0.0.1:9/f", tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://host/f", "f", ""])
def test_other_addresses_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="no address of the web"):
        download(url, tmp_path / "f")


def test_a_folder_that_is_not_there(address: str, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="none"):
        download(f"{address}/file", tmp_path / "none" / "f")
