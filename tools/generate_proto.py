"""Regenerate the message modules in `src/tazza/proto/` from the `.proto` files beside them.

The compiler is the one that the extra `proto` of pyproject.toml pins: old enough that its output runs on every protobuf
runtime that tazza allows. It is installed into a virtual environment that is thrown away, so that its own wishes about
protobuf meet nothing else. `--out FOLDER` writes elsewhere, which the test uses to compare.

The files are compiled as `caffe2/proto/NAME.proto`. That name stands in serialized descriptors, and keeps the pool of
messages free of a second definition under another file name.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "tazza" / "proto"
PROTO_FOLDER = "caffe2/proto"
PYTHON_WITH_WHEELS = (3, 11)


def compiler_requirement() -> str:
    """Return the requirement that pins the compiler, such as `grpcio-tools==1.2.3`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return project["project"]["optional-dependencies"]["proto"][0]


def install_compiler(folder: Path) -> Path:
    """Make a virtual environment in `folder` that has the compiler; return its interpreter."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    # Since release 82, setuptools no longer brings pkg_resources, which this compiler's Python part imports.
    requirements = [compiler_requirement(), "setuptools<81"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
    return python


def compile_messages(python: Path, folder: Path) -> Path:
    """Compile all `.proto` files of `SOURCE` below `folder`; return the folder with the modules."""
    sources, modules = folder / "in", folder / "out"
    (sources / PROTO_FOLDER).mkdir(parents=True)
    modules.mkdir()
    for path in SOURCE.glob("*.proto"):
        shutil.copy(path, sources / PROTO_FOLDER)
    names = sorted(f"{PROTO_FOLDER}/{path.name}" for path in SOURCE.glob("*.proto"))
    options = [f"--proto_path={sources}", f"--python_out={modules}", f"--pyi_out={modules}"]
    subprocess.run([python, "-m", "grpc_tools.protoc", *options, *names], check=True)
    return modules / PROTO_FOLDER


def move_into_package(text: str) -> str:
    """Let a generated module import its neighbours from `tazza.proto`, and call itself a part of it.

    >>> move_into_package("from caffe2.proto import caffe2_pb2 as caffe2_dot_proto_dot_caffe2__pb2")
    'from tazza.proto import caffe2_pb2 as caffe2_dot_proto_dot_caffe2__pb2'
    """
    text = re.sub(r"^from caffe2\.proto import ", "from tazza.proto import ", text, flags=re.MULTILINE)
    return re.sub(r"'caffe2\.proto\.(\w+_pb2)'", r"'tazza.proto.\1'", text)


def generate(out: Path) -> list[Path]:
    """Write all message modules and their stubs into `out`; return their paths."""
    written: list[Path] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        modules = compile_messages(install_compiler(folder / "venv"), folder)
        for path in sorted(modules.glob("*_pb2.py*")):
            target = out / path.name
            target.write_text(move_into_package(path.read_text(encoding="utf-8")), encoding="utf-8")
            written.append(target)
    return written


def main() -> None:
    """Regenerate, and print what was written."""
    parser = argparse.ArgumentParser(description="regenerate the message modules from the .proto files")
    parser.add_argument("--out", type=Path, default=SOURCE, help="folder to write to (default: the package)")
    if sys.version_info[:2] != PYTHON_WITH_WHEELS:
        parser.error("the pinned compiler has wheels for Python 3.11 only; run this with it")
    for path in generate(parser.parse_args().out):
        print(path.name)


if __name__ == "__main__":
    main()
