"""Extension modules: Python by name, path and entry point; shared objects; what is refused and why."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tazza.errors import DuplicateError, InitError
from tazza.runtime import flags, modules, native
from tazza.runtime.modules import load_module, loaded_modules
from tazza.runtime.native import call_native, native_arguments, native_tensor

EXAMPLE = Path(__file__).parents[2] / "examples" / "native_module" / "scaled_add.c"
COMPILER = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name)) is not None), None)
FLOAT = 1  # of TensorProto.DataType

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler: none of cc, gcc, clang is found")


@pytest.fixture(autouse=True)
def own_modules() -> Iterator[None]:
    """Forget what a test loads."""
    registries = (modules.MODULES, native.NATIVE_KERNELS, flags.FLAGS)
    before = [set[object](registry.keys()) for registry in registries]
    names = set(sys.modules)
    yield
    for registry, kept in zip(registries, before, strict=True):
        for key in registry.keys():
            if key not in kept:
                registry.unregister(key)  # pyright: ignore[reportArgumentType] - the key is its own registry's
    for name in set(sys.modules) - names:
        del sys.modules[name]


def build(folder: Path, source: Path | str, name: str = "built.so", *options: str) -> Path:
    """Compile C, a file or text, to a shared object."""
    assert COMPILER is not None
    if isinstance(source, str):
        file = folder / "source.c"
        file.write_text(source)
    else:
        file = source
    include = str(native.include_folder())
    command = [COMPILER, "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *options, "-I", include]
    subprocess.run([*command, str(file), "-o", str(folder / name)], check=True)
    return folder / name


CHANGEABLE = """
#include "tazza_module.h"
#include <stdlib.h>
static int64_t run(void *arguments) { return arguments != NULL; }
uint32_t tazza_abi_version(void) { return (uint32_t)atoi(getenv("MODULE_VERSION")); }
int32_t tazza_kernel_count(void) { return (int32_t)atoi(getenv("MODULE_COUNT")); }
const tazza_kernel_t *tazza_kernel(int32_t i) {
  static tazza_kernel_t kernel;
  kernel.operator_type = getenv("MODULE_OPERATOR");
  kernel.engine = getenv("MODULE_ENGINE");
  kernel.run = getenv("MODULE_RUN") ? run : NULL;
  return i < 2 ? &kernel : NULL;
}
"""
RIGHT = {"VERSION": "1", "COUNT": "1", "OPERATOR": "Mine", "ENGINE": "my", "RUN": "yes"}


@pytest.fixture(scope="module")
def changeable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile, once, a module that says of itself what the environment tells it."""
    return build(tmp_path_factory.mktemp("changeable"), CHANGEABLE)


@pytest.fixture
def copy(changeable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return a maker of copies of the changeable module, each a module of its own, that are right in all they say."""
    for name, value in RIGHT.items():
        monkeypatch.setenv(f"MODULE_{name}", value)

    def made(name: str) -> Path:
        return Path(shutil.copy(changeable, tmp_path / name))

    return made


# -- shared objects -----------------------------------------------------------------------------------------------


def described(values: np.ndarray) -> native.NativeTensor:
    strides = [stride // values.itemsize for stride in values.strides]
    return native_tensor(values.ctypes.data, values.shape, strides, FLOAT)


@pytest.mark.slow
@needs_compiler
def test_the_example_is_built_loaded_and_run(tmp_path: Path) -> None:
    path = build(tmp_path, EXAMPLE, "scaled_add.so")
    loaded = load_module(path)
    assert (loaded.name, loaded.kind, loaded.path) == ("scaled_add", "native", str(path))
    assert loaded.registered == ("native kernel ('ExampleScaledAdd', 'example')",)
    kernel = native.NATIVE_KERNELS["ExampleScaledAdd", "example"]
    assert (kernel.operator_type, kernel.engine, kernel.module) == ("ExampleScaledAdd", "example", str(path))

    a = np.arange(30, dtype=np.float32).reshape(5, 3, 2).transpose(2, 1, 0)
    b = np.broadcast_to(np.array([[1], [2], [3]], np.float32), (2, 3, 5))
    y = np.full((2, 3, 5), np.nan, np.float32)
    block = native_arguments([described(a), described(b)], [described(y)])
    assert call_native(kernel.address, ctypes.addressof(block)) == 0
    np.testing.assert_array_equal(y, 2 * a + b)

    too_few = native_arguments([described(a)], [described(y)])
    assert call_native(kernel.address, ctypes.addressof(too_few)) == 1
    other_shape = native_arguments([described(a), described(b[:, :2])], [described(y)])
    assert call_native(kernel.address, ctypes.addressof(other_shape)) == 1


@pytest.mark.slow
@needs_compiler
def test_loading_twice_gives_the_same_module(
    copy: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copy("built.so")
    link = tmp_path / "link.so"
    link.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    loaded = load_module(str(path))
    assert load_module("./built.so") is loaded
    assert load_module("built.so") is loaded
    assert load_module(link) is loaded
    assert [module for module in loaded_modules() if module.kind == "native"] == [loaded]


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("VERSION", "7", "has ABI version 7, this tazza takes 1"),
        ("COUNT", "0", "says that it has 0 kernels, allowed are 1 to 10000"),
        ("COUNT", "-1", "says that it has -1 kernels"),
        ("COUNT", "3", r"tazza_kernel\(2\) is NULL"),
        ("COUNT", "2", r"two kernels of operator and engine \('Mine', 'my'\)"),
        ("OPERATOR", None, "operator_type of kernel 0 is None, which is no name"),
        ("OPERATOR", "M\udcff", r"operator_type of kernel 0 is b'M.xff', which is no name"),
        ("ENGINE", "a,b", "engine of kernel 0 is b'a,b', which is no name"),
        ("RUN", None, r"function run of kernel 0 \(Mine\) is NULL"),
    ],
)
def test_a_malformed_module_is_refused_and_registers_nothing(
    copy: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, name: str, value: str | None, message: str
) -> None:
    if value is None:
        monkeypatch.delenv(f"MODULE_{name}")
    else:
        monkeypatch.setenv(f"MODULE_{name}", value)
    before = native.NATIVE_KERNELS.keys()
    with pytest.raises(InitError, match=message):
        load_module(copy("malformed.so"))
    assert native.NATIVE_KERNELS.keys() == before


@pytest.mark.slow
@needs_compiler
def test_a_module_with_an_undefined_symbol_is_refused(tmp_path: Path) -> None:
    text = "int undefined(void); int use(void); int use(void) { return undefined(); }"
    with pytest.raises(InitError, match=r"cannot be loaded: .*undefined"):
        load_module(build(tmp_path, text, "built.so", "-Wl,-z,now"))


@pytest.mark.slow
@needs_compiler
def test_two_modules_with_the_same_kernel(copy: Callable[[str], Path]) -> None:
    first, second = copy("first.so"), copy("second.so")
    load_module(first)
    with pytest.raises(
        DuplicateError, match=rf"second.so brings a native kernel \('Mine', 'my'\) that {first} brought"
    ):
        load_module(second)
    assert native.NATIVE_KERNELS["Mine", "my"].module == str(first)


@pytest.mark.slow
@needs_compiler
def test_an_object_file_is_not_a_shared_object(tmp_path: Path) -> None:
    assert COMPILER is not None
    (tmp_path / "source.c").write_text("int x;")
    subprocess.run([COMPILER, "-c", str(tmp_path / "source.c"), "-o", str(tmp_path / "object.so")], check=True)
    with pytest.raises(InitError, match=r"cannot be loaded|is an ELF file of type 1, a shared object has type 3"):
        load_module(tmp_path / "object.so")


def test_a_library_without_the_symbols_is_refused() -> None:
    import _ctypes  # a shared object that every CPython with ctypes has, unless it is built in

    file = getattr(_ctypes, "__file__", None)
    if file is None:
        pytest.skip("needs a shared object that is no module: _ctypes is built into this Python")
    with pytest.raises(InitError, match="is not a tazza module: it does not export tazza_abi_version") as raised:
        load_module(Path(file))
    assert "tazza_module.h" in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello, I am text", "is not a shared object: it starts with b'hello, I'"),
        (b"", "is not a shared object: it starts with b''"),
        (b"\x7fELF\x02\x01", "ends within its ELF header"),
        (b"\x7fELF\x02\x01" + bytes(10) + b"\x02\x00" + bytes(50), "of type 2, a shared object has type 3"),
        (b"\x7fELF\x02\x01" + bytes(10) + b"\x03\x00" + bytes(50), "cannot be loaded"),
        (b"MZ" + bytes(100), "cannot be loaded"),
    ],
)
def test_a_file_that_only_has_the_name_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "named.so"
    path.write_bytes(content)
    with pytest.raises(InitError, match=message):
        load_module(path)


# -- Python -------------------------------------------------------------------------------------------------------


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


DECLARES = "from tazza.runtime.flags import flag\nflag({name!r}, 1, 'of a module')\n"


def test_a_python_file_by_path(tmp_path: Path) -> None:
    first = write(tmp_path, "one/json.py", DECLARES.format(name="from_one"))
    second = write(tmp_path, "two/json.py", DECLARES.format(name="from_two"))
    loaded = load_module(first)
    assert (loaded.name, loaded.kind, loaded.path) == ("json", "python", str(first))
    assert loaded.registered == ("flag from_one",)
    assert load_module(str(second)).registered == ("flag from_two",)
    assert load_module(first) is loaded
    import json

    assert json.dumps([1]) == "[1]"
    here = [module.path for module in loaded_modules() if str(module.path).startswith(str(tmp_path))]
    assert here == [str(first), str(second)]


def test_a_python_module_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path, "test_package/part.py", DECLARES.format(name="from_part"))
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    loaded = load_module("test_package.part")
    assert loaded == modules.Module("test_package.part", "python", str(file), ("flag from_part",))
    assert load_module("test_package.part") is loaded


def test_a_python_module_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "entry_module.py", DECLARES.format(name="from_entry"))
    write(tmp_path, "entry-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: entry\nVersion: 1.0\n")
    write(tmp_path, "entry-1.0.dist-info/entry_points.txt", "[tazza.modules]\nnice-name = entry_module\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    loaded = load_module("nice-name")
    assert (loaded.name, loaded.registered) == ("entry_module", ("flag from_entry",))
    assert load_module("entry_module") is loaded
    with pytest.raises(InitError, match="did you mean nice-name"):
        load_module("nise-name")
    with pytest.raises(InitError, match="installed modules: nice-name"):
        load_module("zzz-9")


BRINGS = """
import tazza.ops.math.scale
from tazza.graph.transform import TRANSFORMS
from tazza.operator import FLOAT, Effects, blob, ends, find_schema, kernel, schema
find_schema("Gelu"), TRANSFORMS["canonicalise"]
MADE = schema("TestBrought", "Y = X.", inputs=[blob("X", FLOAT, "*S")], outputs=[blob("Y", like="X")],
              effects=Effects.PURE, no_gradient=ends("a test"))
@kernel(MADE)
def brought(X, Y):
    Y[...] = X
"""


@pytest.mark.slow
def test_what_imports_happen_to_load_is_not_what_a_module_brought(tmp_path: Path) -> None:
    file = write(tmp_path, "brings.py", BRINGS)
    write(tmp_path, "brings_all/__init__.py", "import brings_all.part, json, tazza.db")
    write(tmp_path, "brings_all/part.py", DECLARES.format(name="from_part"))
    program = f"""
import sys
from tazza.runtime.modules import load_module
sys.path.insert(0, {str(tmp_path)!r})
for name in ({str(file)!r}, "brings_all", "json"):
    print(*sorted(load_module(name).registered), sep="; ")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "kernel (operator, device, engine) ('TestBrought', 'cpu', 'reference'); operator TestBrought",
        "flag from_part",
        "",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 / 0", "failed as it was imported: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "failed as it was imported: SystemExit: 3"),
        ("def (", "failed as it was imported: SyntaxError"),
        ("import no_such_package_at_all", "needs a module that is not installed: No module named 'no_such_package"),
    ],
)
def test_a_failing_python_module_tells_why(tmp_path: Path, text: str, message: str) -> None:
    file = write(tmp_path, "failing.py", text)
    before = set(sys.modules)
    with pytest.raises(InitError, match=message):
        load_module(file)
    assert not [name for name in set(sys.modules) - before if "failing" in name]
    assert not [module for module in loaded_modules() if module.path == str(file)]
    file.write_text("x = 1  # mended; of another size, since Python tells a stale .pyc by size and second")
    assert load_module(file).registered == ()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_package_at_all", "there is no module 'no_such_package_at_all'"),
        ("json.no_such_part", "there is no module 'json.no_such_part'"),
        ("", "'' is no path, no entry point of tazza.modules and no dotted name"),
        ("a b", "'a b' is no path"),
        (".relative", "'.relative' is no path"),
        ("missing/file.so", "module file missing/file.so does not exist"),
        ("missing.py", "module file missing.py does not exist"),
        ("missing.so.1", "module file missing.so.1 does not exist"),
    ],
)
def test_a_name_without_a_module(name: str, message: str) -> None:
    with pytest.raises(InitError, match=message):
        load_module(name)


def test_a_folder_and_another_kind_of_file(tmp_path: Path) -> None:
    with pytest.raises(InitError, match="is not a file"):
        load_module(tmp_path)
    net = write(tmp_path, "predict_net.pb", "text")
    with pytest.raises(InitError, match=r"is not a module: its name ends neither in \.py nor as a shared object"):
        load_module(net)


def test_a_registry_is_watched_once() -> None:
    with pytest.raises(DuplicateError, match="watched registry 'flag'"):
        modules.watch(flags.FLAGS)
