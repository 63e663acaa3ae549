"""Write `src/tazza/engines/onednn/_declarations.py` anew from the vendor's header `oneapi/dnnl/dnnl.h`.

The header comes with the wheel `onednn-devel-cpu-gomp` of the same version as the library, or with any installation of
oneDNN 3 without a GPU runtime:

    python tools/generate_onednn.py --include FOLDER      (the folder with `oneapi` in it)

A C preprocessor (`cc`) removes comments and conditions; cffi reads what remains. Numbers of `DNNL_ARG_...` are macros
of the header, which become constants. `--out FILE` writes elsewhere.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "tazza" / "engines" / "onednn" / "_declarations.py"
MODULE = "tazza.engines.onednn._declarations"
STUB = """from typing import Any

ffi: Any
"""


def preprocess(include: Path, *options: str) -> str:
    """Return what the C preprocessor makes of the header."""
    header = include / "oneapi" / "dnnl" / "dnnl.h"
    command = ["cc", "-E", "-P", *options, f"-I{include}", str(header)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def declarations(include: Path) -> str:
    """Return the types and functions of the header, without those of the C library and without attributes."""
    text = preprocess(include)
    own = text[text.index("typedef enum {") :]
    return re.sub(r"__attribute__\s*\(\(.*?\)\)", "", own)


def constants(include: Path) -> str:
    """Return `#define` lines of the argument and version numbers, with macros that stand for others resolved."""
    found = dict(re.findall(r"^#define (DNNL_(?:ARG|VERSION|RUNTIME)_\w+) (\w+)$", preprocess(include, "-dM"), re.M))
    lines: list[str] = []
    for name in sorted(found):
        value = found[name]
        while value in found:
            value = found[value]
        if re.fullmatch(r"(\d+|0x[0-9a-fA-F]+)[uU]?", value):
            lines.append(f"#define {name} {int(value.rstrip('uU'), 0)}")
    return "\n".join(lines)


def main() -> None:
    """Read the header, write the module and its stub."""
    from cffi import FFI  # pyright: ignore[reportMissingTypeStubs] -- it ships none

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(sysconfig.get_path("data")) / "include"
    parser.add_argument("--include", type=Path, default=default, help="folder with oneapi/dnnl/dnnl.h in it")
    parser.add_argument("--out", type=Path, default=TARGET, help="the module to write")
    options = parser.parse_args()
    ffi = FFI()
    ffi.set_source(MODULE, None)
    ffi.cdef(declarations(options.include) + "\n" + constants(options.include), override=True)
    ffi.emit_python_code(str(options.out))
    options.out.with_suffix(".pyi").write_text(STUB)


if __name__ == "__main__":
    main()
