"""Declarations of NVIDIA's libraries are those of the headers in the wheels, and the libraries export all of them."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tazza.device.cuda.vendor import VendorLibrary
from tazza.engines.cublas import _declarations as cublas
from tazza.engines.cublas.library import CUBLAS
from tazza.engines.cudnn import _declarations as cudnn
from tazza.engines.cudnn.library import CUDNN
from tazza.engines.nccl import _declarations as nccl
from tazza.engines.nccl.library import NCCL
from tests.wheels.described import why_not
from tools.generate_cuda import written

LIBRARIES: dict[str, tuple[VendorLibrary, Any, tuple[str, ...]]] = {
    "cublas": (CUBLAS, cublas, ("cublas_api.h", "cublasLt.h", "library_types.h")),
    "cudnn": (CUDNN, cudnn, ("cudnn_graph_v9.h", "cudnn_ops_v9.h", "cudnn_cnn_v9.h")),
    "nccl": (NCCL, nccl, ("nccl.h",)),
}
pytestmark = [pytest.mark.slow, pytest.mark.skipif(why_not() is not None, reason=str(why_not()))]


def header(name: str) -> str | None:
    """Return the text of a header of some wheel."""
    spec = importlib.util.find_spec("nvidia")
    folders = [] if spec is None or spec.submodule_search_locations is None else spec.submodule_search_locations
    found = [path for folder in folders for path in Path(folder).glob(f"*/include/{name}")]
    return found[0].read_text(errors="replace") if found else None


@pytest.mark.parametrize("name", LIBRARIES)
def test_declarations_are_those_of_the_headers(name: str) -> None:
    _, declared, files = LIBRARIES[name]
    texts = [text for file in files if (text := header(file)) is not None]
    if len(texts) < len(files):
        pytest.skip(f"the headers {', '.join(files)} are in no wheel that is installed")
    made = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(written(name, "\n".join(texts))).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    assert made["FUNCTIONS"] == declared.FUNCTIONS
    common = made["NUMBERS"].keys() & declared.NUMBERS.keys()
    assert len(common) > 30
    assert {one: made["NUMBERS"][one] for one in common} == {one: declared.NUMBERS[one] for one in common}


@pytest.mark.parametrize("name", LIBRARIES)
def test_the_library_exports_what_is_declared(name: str) -> None:
    library, declared, files = LIBRARIES[name]
    if header(files[0]) is None:
        pytest.skip(f"{library.facts.name} is not installed")
    loaded = library.functions()  # refuses one that lacks a function
    assert all(getattr(loaded, function) for function in declared.FUNCTIONS)
