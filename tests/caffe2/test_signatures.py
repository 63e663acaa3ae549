"""Names and signatures are those of the genuine Caffe2, which `tools/record_signatures.py` has recorded."""

from __future__ import annotations

import inspect
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tools.record_signatures import parameters

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "caffe2_signatures.json").read_text(encoding="utf-8")
)
TEXTS = "Python 2: texts and whole numbers have one type"
CLI = "it was a program; `tazza show` and `tazza profile` are"
ONNX = "ONNX is not there yet"
VENDORS = "of libraries that tazza does not drive"
PASS = "a step of the backward pass, which is one function in tazza"

ABSENT = {
    **dict.fromkeys(
        ("core.string_types", "functional.string_types", "utils.string_types", "utils.integer_types"), TEXTS
    ),
    **dict.fromkeys(("dyndep.Lock", "dyndep.dll_lock"), "no library is loaded"),
    **dict.fromkeys(("net_drawer.main",), CLI),
    "dataset.Dataset.field_types": "an attribute of each data set hides it there",
    **dict.fromkeys((f"_import_c_extension.{name}" for name in ("export_to_onnx", "onnx_to_trt_op", "onnxifi")), ONNX),
    **dict.fromkeys(
        (
            f"_import_c_extension.{name}"
            for name in (
                "transform_optimizeForMKLDNN",
                "transform_trt",
                "get_cuda_peer_access_pattern",
                "get_device_properties",
                "get_gpu_memory_info",
            )
        ),
        VENDORS,
    ),
    **dict.fromkeys(
        (
            f"core.IR.{name}"
            for name in (
                "AppendSparseGenerators",
                "BuildGradientGenerators",
                "CheckGradientOperatorInput",
                "DoGradientAccumulation",
            )
        ),
        PASS,
    ),
}
"""Names that are not there, and why; docs/caffe2_names.md says so."""


def found_in(cls: Any, name: str) -> Any:
    """Return what a class has under a name, functions as such."""
    member: Any = inspect.getattr_static(cls, name)
    return getattr(member, "__func__", member)


def differences(module: str) -> list[str]:
    """Return where a module differs from what was recorded."""
    imported = import_module(f"caffe2.python.{module}")
    ours: Any = vars(imported).get("wrapped", imported)
    told: list[str] = []
    for name, recorded in RECORDED[module].items():
        if f"{module}.{name}" in ABSENT:
            continue
        if not hasattr(ours, name):
            told.append(f"{module}.{name} is missing")
        elif isinstance(recorded, list) and parameters(getattr(ours, name)) != recorded:
            told.append(f"{module}.{name} takes {parameters(getattr(ours, name))}, not {recorded}")
        elif isinstance(recorded, dict):
            told += _in_class(f"{module}.{name}", getattr(ours, name), recorded)  # pyright: ignore[reportUnknownArgumentType]
    return told


def _in_class(path: str, cls: Any, recorded: dict[str, Any]) -> list[str]:
    told: list[str] = []
    for name, wanted in recorded.items():
        if f"{path}.{name}" in ABSENT:
            continue
        if not hasattr(cls, name):
            told.append(f"{path}.{name} is missing")
        elif wanted == "property":
            told += [] if isinstance(found_in(cls, name), property) else [f"{path}.{name} is no property"]
        elif parameters(found_in(cls, name)) != wanted:
            told.append(f"{path}.{name} takes {parameters(found_in(cls, name))}, not {wanted}")
    return told


@pytest.mark.parametrize("module", RECORDED)
def test_signatures_are_those_of_caffe2(module: str) -> None:
    assert differences(module) == []


def test_what_is_absent_is_absent() -> None:
    def there(path: str) -> bool:
        module, _, rest = path.partition(".")
        found: Any = import_module(f"caffe2.python.{module}")
        *outer, last = rest.split(".")
        for name in outer:
            found = getattr(found, name)
        return last in vars(found)

    assert [path for path in ABSENT if there(path)] == []
