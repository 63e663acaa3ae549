"""A small service that classifies pictures: one predictor, many threads, requests that come together run together.

    python examples/service.py out/lenet --port 8080
    curl --data-binary @out/lenet/digit.png http://localhost:8080/

An answer is JSON: `{"classes": [{"class": 7, "score": 0.99}, ...]}`, or an `error` with status 400 for what is no
picture. Ctrl-C and SIGTERM end it: requests that are under way are answered first. It takes what `tazza predict` has
kept beside the model (`--save`): preprocessing.json and labels.txt.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

import tazza
from tazza.errors import TazzaError
from tazza.images import Preprocessing, read_labels

Array = NDArray[Any]
BODY_BYTES_MAX = 16 << 20
"""Longest picture that is taken."""


class Together:
    """Runs what many threads ask for in batches: whoever comes while a batch runs is in the next one.

    Nobody waits for others to come: a request that finds nobody running runs alone, at once. `batches` are the sizes of
    those that ran.
    """

    def __init__(self, predictor: tazza.Predictor, most: int = 8) -> None:
        """Start the thread that runs batches of up to `most`; it ends with `close`."""
        self.batches: list[int] = []
        self._predictor = predictor
        self._most = most
        self.asked: SimpleQueue[tuple[Array, Future[Array]] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="batches")
        self._thread.start()

    def __call__(self, image: Array) -> Array:
        """Return what the net makes of one image, without the batch.

        Raises:
            TazzaError: it does not fit the net.
        """
        answer: Future[Array] = Future()
        self.asked.put((image, answer))
        return answer.result()

    def close(self) -> None:
        """Answer what has been asked, and end the thread; nobody may ask any more."""
        self.asked.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self.asked.get()) is not None:
            batch, ends = [first], False
            while len(batch) < self._most:
                try:
                    more = self.asked.get_nowait()
                except Empty:
                    break
                ends = more is None
                if more is None:
                    break
                batch.append(more)
            self._answer(batch)
            if ends:
                return

    def _answer(self, batch: Sequence[tuple[Array, Future[Array]]]) -> None:
        """Run a batch; images of other shapes, or one that does not fit, run alone, so that they spoil no other."""
        try:
            made = self._run([image for image, _ in batch])
        except (TazzaError, ValueError) as error:
            if len(batch) == 1:
                batch[0][1].set_exception(error)
                return
            for each in batch:
                self._answer([each])
            return
        for (_, answer), row in zip(batch, made, strict=True):
            answer.set_result(row)

    def _run(self, images: Sequence[Array]) -> Array:
        made: Array = next(iter(self._predictor.run([np.stack(images)]).values()))
        self.batches.append(len(images))
        return made


class Service(ThreadingHTTPServer):
    """The server: a thread for each request; `with` ends all of it in order."""

    daemon_threads = False  # requests that are under way are waited for

    def __init__(self, model: Path, address: tuple[str, int]) -> None:
        """Load a model from a folder, and take requests at an address; port 0 takes any that is free."""
        super().__init__(address, Request)
        settings, names = model / "preprocessing.json", model / "labels.txt"
        self.prepare = Preprocessing.read(settings) if settings.exists() else Preprocessing(colors="grey")
        self.labels = read_labels(names) if names.exists() else None
        self.predictor = tazza.load(model)
        self.together = Together(self.predictor)

    def __enter__(self) -> Self:
        return self

    def server_close(self) -> None:
        """Wait for the requests that are under way, then end the batches and the predictor."""
        super().server_close()
        self.together.close()
        self.predictor.close()

    def classify(self, picture: bytes, top: int = 3) -> list[dict[str, Any]]:
        """Return the best classes of a picture, best first.

        Raises:
            TazzaError: it is no picture, or does not fit the net.
        """
        scores = self.together(self.prepare(picture)[0]).reshape(-1)
        best: list[int] = np.argsort(-scores)[:top].tolist()
        named = {} if self.labels is None else {each: {"label": self.labels[each]} for each in best}
        return [{"class": each, **named.get(each, {}), "score": float(scores[each])} for each in best]


class Request(BaseHTTPRequestHandler):
    """A request: a picture in its body."""

    @property
    def service(self) -> Service:
        """The server that took it."""
        return cast("Service", self.server)

    def do_POST(self) -> None:
        """Answer with the classes of the picture."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            self._answer(413, {"error": f"a picture has at most {BODY_BYTES_MAX} bytes, and says how many"})
            return
        try:
            self._answer(200, {"classes": self.service.classify(self.rfile.read(int(length)))})
        except TazzaError as error:
            self._answer(400, {"error": error.message})

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing of each request."""

    def _answer(self, status: int, told: dict[str, Any]) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(description="classify pictures over HTTP")
    parser.add_argument("model", type=Path, help="folder with the files of a model")
    parser.add_argument("--port", type=int, default=8080)
    given = parser.parse_args()
    with Service(given.model, ("127.0.0.1", given.port)) as service:

        def end(number: int, frame: FrameType | None) -> None:
            del number, frame
            threading.Thread(target=service.shutdown).start()  # the loop that it ends is in this thread

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        print(f"http://127.0.0.1:{service.server_address[1]}/ takes pictures", flush=True)
        service.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main()
