"""Models from where Caffe2 kept them, as two nets and what their inputs are; nothing is fetched before it is asked for.

That address has answered nobody for years. What lies in the folder of models is taken from there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

from tazza.errors import ArgumentError, TazzaError
from tazza.interop.download import download
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.runtime.files import read_json, temporary_beside

DOWNLOAD_BASE_URL = "https://s3.amazonaws.com/download.caffe2.ai/models/"
DOWNLOAD_COLUMNS = 70
FILES = ("predict_net.pb", "init_net.pb", "value_info.json")
PACKAGE = Path(__file__).resolve().parent


def signalHandler(signal: int, frame: Any) -> None:
    """End the program, as Ctrl-C does where it is set as handler."""
    del signal, frame
    print("Killing download...")
    sys.exit(0)


def deleteDirectory(top_dir: str) -> None:
    """Remove a folder with all in it."""
    shutil.rmtree(top_dir)


def progressBar(percentage: float) -> None:
    """Show how much has come, in percent."""
    full = int(DOWNLOAD_COLUMNS * percentage / 100)
    print(f"\x1b[1000D[{'#' * full:{DOWNLOAD_COLUMNS}}] {percentage}%", end="", flush=True)


def downloadFromURLToFile(url: str, filename: str, show_progress: bool = True) -> None:
    """Write what an address holds to a file, which is there once all of it is.

    Raises:
        UnavailableError: nobody answers.
        FileError: the file cannot be written.
    """
    print(f"Downloading from {url}")
    download(url, filename, progress=(lambda share: progressBar(int(100 * share))) if show_progress else None)
    print()


def getURLFromName(name: str, filename: str) -> str:
    """Return the address of a file of a model.

    >>> getURLFromName("squeezenet", "init_net.pb")
    'https://s3.amazonaws.com/download.caffe2.ai/models/squeezenet/init_net.pb'
    """
    return f"{DOWNLOAD_BASE_URL}{name}/{filename}"


def validModelName(name: str) -> bool:
    """Whether a model can have a name: letters, digits, `-`, `_`, and `/` between them.

    >>> validModelName("detectron/e2e-faster_rcnn"), validModelName("../squeezenet"), validModelName("/etc")
    (True, False, False)
    """
    return re.fullmatch(r"[\w-]+(/[\w-]+)*", name, re.ASCII) is not None


def downloadModel(model: str, args: Any) -> None:
    """Fetch a model into a folder of its name: here, or with `args.install` among the modules, to be imported.

    The folder is there once both nets are; one that is replaced (`args.force`, or the answer to a question) goes last.

    Raises:
        ArgumentError: no name of a model.
        UnavailableError: nobody answers.
    """
    if not validModelName(model):
        raise ArgumentError(f"{model!r} is no name of a model", hint="letters, digits, '-', '_', and '/' between them")
    folder = (PACKAGE if args.install else Path.cwd()) / model
    if folder.exists() and not args.force:
        print("Model already exists, continue? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() != "y":
            return
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = temporary_beside(folder)
    made.mkdir()
    try:
        for name in FILES[:2]:
            downloadFromURLToFile(getURLFromName(model, name), str(made / name))
        if args.install:
            shutil.copyfile(PACKAGE / "__sym_init__.py", made / "__init__.py")
        if folder.exists():
            deleteDirectory(str(folder))
        made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


class ModelDownloader:
    """Models below the folder that a variable of the environment names, else in `~/.caffe2/models`."""

    def __init__(self, model_env_name: str = "CAFFE2_MODELS") -> None:
        """Take the name of the variable."""
        self.model_env_name = model_env_name

    def _model_dir(self, model: str) -> str:
        home = os.path.expanduser(os.getenv("CAFFE2_HOME", "~/.caffe2"))
        return os.path.join(os.getenv(self.model_env_name, os.path.join(home, "models")), model)

    def _download(self, model: str) -> None:
        """Fetch the files of a model into its folder, which is there once all are."""
        if not validModelName(model):
            raise ArgumentError(f"{model!r} is no name of a model")
        folder = Path(self._model_dir(model))
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = temporary_beside(folder)
        made.mkdir()
        try:
            for name in FILES:
                downloadFromURLToFile(getURLFromName(model, name), str(made / name), show_progress=False)
            made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def get_c2_model_dbg(self, model_name: str) -> tuple[NetDef, NetDef, dict[str, Any], str]:
        """Return what `get_c2_model` does, and what was read from where."""
        folder = self._model_dir(model_name)
        if not os.path.exists(folder):
            self._download(model_name)
        said = ["get_c2_model debug:"]
        nets: list[NetDef] = []
        for kind, name in (("predict", FILES[0]), ("init", FILES[1])):
            path = os.path.join(folder, name)
            nets.append(read_message(path, NetDef))
            said += [f"c2_{kind}_pb path: {path}", f"c2_{kind}_pb ParseFromString = {nets[-1].ByteSize()}"]
        predict, init = nets
        predict.name, init.name = model_name, f"{model_name}_init"
        info = read_json(os.path.join(folder, FILES[2]), "description of a model's inputs")
        return init, predict, info, "".join(f"{line}\n" for line in said)

    def get_c2_model(self, model_name: str) -> tuple[NetDef, NetDef, dict[str, Any]]:
        """Return the init net and the net of a model, and element type and shape of its inputs.

        Raises:
            UnavailableError: its folder is not there, and nobody answers.
            FileError, FormatError: a file is not there, or holds something else.
        """
        return self.get_c2_model_dbg(model_name)[:3]


def main(arguments: list[str] | None = None) -> int:
    """Fetch models by name; returns the exit status."""
    parser = argparse.ArgumentParser(description="Download or install pretrained models.")
    parser.add_argument("model", nargs="+", help="Model to download/install.")
    parser.add_argument("-i", "--install", action="store_true", help="Install the model.")
    parser.add_argument("-f", "--force", action="store_true", help="Force a download/installation.")
    args = parser.parse_args(arguments)
    for model in args.model:
        try:
            downloadModel(model, args)
        except TazzaError as error:
            print(f"Abort: {error}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
