"""`tazza doctor`: what tazza found on this machine."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from importlib import metadata

from rich.table import Table

import tazza
from tazza.cli.console import make_console
from tazza.db import DBS
from tazza.device import device_of, initialize_devices
from tazza.operator import ENGINES, KERNELS
from tazza.operator.engine import REFERENCE
from tazza.operator.index import index
from tazza.runtime.chosen_modules import BROKEN
from tazza.runtime.flags import FLAGS
from tazza.runtime.machine import MODEL, machine
from tazza.runtime.modules import loaded_modules
from tazza.runtime.native_code import describe_code
from tazza.runtime.openmp import describe_regions
from tazza.runtime.threads import NUM_THREADS, allowed_cpus, thread_count
from tazza.tensor import ALLOCATORS, CPUPlace
from tazza.tensor.allocation import made_allocators


def doctor() -> None:
    """Print engines with reasons, threads, versions of libraries, Python, platform, CPU features and devices."""
    console = make_console()
    for title, rows in (
        ("system", _system()),
        ("engines", _engines()),
        ("devices", _devices()),
        ("allocators", _allocators()),
        ("libraries", _libraries()),
        ("databases", _databases()),
        ("modules", _modules()),
        ("flags that were set", [(name, f"{FLAGS[name].value!r} ({FLAGS[name].source})") for name in _given()]),
    ):
        if rows:
            table = Table(title=title, box=None, show_header=False, title_justify="left", title_style="bold")
            table.add_column(no_wrap=True, min_width=20)
            table.add_column(overflow="fold")
            for name, value in rows:
                table.add_row(name, value)
            console.print(table, highlight=False, markup=False)
            console.print()


def _given() -> list[str]:
    return [name for name in FLAGS if FLAGS[name].given]


def _system() -> list[tuple[str, str]]:
    omp = os.environ.get("OMP_NUM_THREADS")
    why = "the flag num_threads" if NUM_THREADS.value > 0 else f"{allowed_cpus()} CPUs allowed"
    cpu = device_of(CPUPlace()).properties
    return [
        ("tazza", tazza.__version__),
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("platform", platform.platform()),
        ("CPU", cpu.name),
        ("CPU features", ", ".join(cpu.features) if cpu.features else "not known"),
        ("threads", f"{thread_count()} ({why}; OMP_NUM_THREADS {'is not set' if omp is None else f'= {omp}'})"),
        ("parallel regions", describe_regions()),
        ("model of the machine", f"{machine()} ({MODEL.value})"),
        ("compiled kernels", describe_code()),
    ]


def _engines() -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for engine in sorted((ENGINES[name] for name in ENGINES), key=lambda each: -each.priority):
        reason = engine.unavailable()
        types = _types(engine.name)
        state = f"available, {len(types)} operators" if reason is None else f"not available: {reason}"
        rows.append((f"{engine.name} ({', '.join(sorted(engine.devices))})", f"{state}. {engine.doc}"))
    return rows


def _types(engine: str) -> set[str]:
    """Return the operator types that an engine has kernels of: by the index, and of modules that were loaded."""
    listed = index()["kernels"].get(engine, {}).values()
    types = {type for each in listed for type in each} | {key[0] for key in KERNELS.registered() if key[2] == engine}
    return types | set(index()["operators"]) if engine == REFERENCE.name else types


def _devices() -> list[tuple[str, str]]:
    devices = initialize_devices()
    rows = [(str(place), str(device.properties)) for place, device in devices.present.items()]
    return rows + [(kind, f"not available: {reason}") for kind, reason in devices.absent.items()]


def _allocators() -> list[tuple[str, str]]:
    """Return the allocators by name, and the figures of those that are in use."""
    rows = [(name, ALLOCATORS.help(name)) for name in ALLOCATORS]
    for (name, place), allocator in made_allocators().items():
        figures = allocator.statistics
        if figures.total_count:
            rows.append((f"{name} of {place}", f"{figures.in_use_bytes} bytes in use, {figures.reserved_bytes} held"))
    return rows


def _databases() -> list[tuple[str, str]]:
    """Return what each type of database is, with all its names together."""
    names: dict[str, list[str]] = {}
    for name in DBS:
        names.setdefault(DBS.help(name), []).append(name)
    return [(", ".join(sorted(each, reverse=True)), help) for help, each in names.items()]


def _modules() -> list[tuple[str, str]]:
    """Return what was loaded with who named it and what it brought, and what could not be loaded."""
    loaded = [
        (one.name, f"{one.kind}, {one.path}, named by {one.source}: {', '.join(one.registered) or 'nothing new'}")
        for one in loaded_modules()
    ]
    broken = [BROKEN[name] for name in BROKEN]
    return loaded + [(one.name, f"not loaded, named by {one.source}: {one.reason}") for one in broken]


def _libraries() -> list[tuple[str, str]]:
    """Return the versions of what tazza declares that it uses, extras included."""
    try:
        declared = metadata.requires("tazza")
    except metadata.PackageNotFoundError:
        declared = None
    if declared is None:
        return [("tazza", "not installed, so that its dependencies are not known")]
    names = dict.fromkeys(_name(each) for each in declared if "dev" not in each and "proto'" not in each)
    return [(name, _version(name)) for name in names]


def _name(requirement: str) -> str:
    end = next((i for i, letter in enumerate(requirement) if not (letter.isalnum() or letter in "-_.")), None)
    return requirement[:end]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed" if importlib.util.find_spec(name) is None else "of unknown version"
