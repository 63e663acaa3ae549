"""Regenerate the message modules of `FOLDERS` from the `.proto` files beside them.

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
FOLDERS = {ROOT / "src" / "tazza" / "proto": "tazza.proto", ROOT / "src/tazza/interop/caffe": "tazza.interop.caffe"}
"""Folders with `.proto` files, and their packages; no two files have one name."""
PROTO_FOLDER = "caffe2/proto"
ENDS = (".py", ".pyi")
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
    """Compile all `.proto` files below `folder`; return the folder with the modules."""
    sources, modules = folder / "in", folder / "out"
    (sources / PROTO_FOLDER).mkdir(parents=True)
    modules.mkdir()
    paths = [path for source in FOLDERS for path in source.glob("*.proto")]
    for path in paths:
        shutil.copy(path, sources / PROTO_FOLDER)
    names = sorted(f"{PROTO_FOLDER}/{path.name}" for path in paths)
    options = [f"--proto_path={sources}", f"--python_out={modules}", f"--pyi_out={modules}"]
    subprocess.run([python, "-m", "grpc_tools.protoc", *options, *names], check=True)
    return modules / PROTO_FOLDER


def move_into_package(text: str, package: str) -> str:
    """Let a generated module import its neighbours from a package, and call itself a part of it.

    >>> move_into_package("from caffe2.proto import caffe2_pb2 as caffe2_dot_proto_dot_caffe2__pb2", "tazza.proto")
    'from tazza.proto import caffe2_pb2 as caffe2_dot_proto_dot_caffe2__pb2'
    """
    text = re.sub(r"^from caffe2\.proto import ", f"from {package} import ", text, flags=re.MULTILINE)
    return re.sub(r"'caffe2\.proto\.(\w+_pb2)'", rf"'{package}.\1'", text)


def generate(out: Path | None = None) -> list[Path]:
    """Write all message modules and their stubs beside their sources, or into `out`; return their paths."""
    written: list[Path] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        modules = compile_messages(install_compiler(folder / "venv"), folder)
        for source, package in FOLDERS.items():
            for path in sorted(modules / f"{one.stem}_pb2{end}" for one in source.glob("*.proto") for end in ENDS):
                target = (source if out is None else out) / path.name
                target.write_text(move_into_package(path.read_text(encoding="utf-8"), package), encoding="utf-8")
                written.append(target)
    return written


def main() -> None:
    """Regenerate, and print what was written."""
    parser = argparse.ArgumentParser(description="regenerate the message modules from the .proto files")
    parser.add_argument("--out", type=Path, help="folder to write to (default: beside the sources)")
    if sys.version_info[:2] != PYTHON_WITH_WHEELS:
        parser.error("the pinned compiler has wheels for Python 3.11 only; run this with it")
    for path in generate(parser.parse_args().out):
        print(path.name)


if __name__ == "__main__":
    main()
