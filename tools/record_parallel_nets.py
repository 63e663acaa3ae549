"""Record the nets that `data_parallel_model`, `muji` and `data_workers` build, and what they learn.

    PYTHON_OF_CAFFE2 -m tools.record_parallel_nets tests/data/parallel_nets.json

It runs under either Python. Each case is a function of the modules; what it returns (models, nets, anything else)
becomes lines of text. Caffe2 copies blobs in the order of a set: copies that stand side by side are sorted. Numbers of
parameters, behind several steps, are recorded as they are.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

MODULES = ("brew", "cnn", "core", "data_parallel_model", "data_workers", "model_helper", "muji", "optimizer")


class Modules:
    """The modules under test."""

    def __init__(self) -> None:
        for name in (*MODULES, "scope", "workspace"):
            setattr(self, name, import_module("caffe2.python." + name))
        self.np = import_module("numpy")

    def __getattr__(self, name: str) -> Any:
        """Return what `data_parallel_model` has."""
        return getattr(self.data_parallel_model, name)

    def reset(self) -> None:
        """Forget the names that earlier cases used, and their blobs."""
        self.core.Net._net_names_used.clear()
        self.optimizer._optimizer_instance_count.clear()
        self.workspace.ResetWorkspace()


def _argument(one: Any) -> str:
    for field in ("i", "f"):
        if one.HasField(field):
            return f"{one.name}={getattr(one, field):g}"
    if one.HasField("s"):
        return f"{one.name}={one.s.decode()}"
    return f"{one.name}={list(one.ints) or list(one.floats)}"


def _option(option: Any) -> str:
    marks = "".join(f" {one}" for one in option.extra_info)
    return f" @{option.device_type}:{option.device_id}{marks}"


def operator_line(op: Any) -> str:
    """Return an operator as text: all that it says but where it was made."""
    parts = [f"{op.type}({','.join(op.input)})->{','.join(op.output)}", *sorted(map(_argument, op.arg))]
    line = " ".join(parts)
    line += _option(op.device_option) if op.HasField("device_option") else ""
    line += f" name={op.name}" if op.name else ""
    line += f" engine={op.engine}" if op.engine else ""
    line += f" after={','.join(op.control_input)}" if op.control_input else ""
    return line + (" gradient" if op.is_gradient_op else "")


def net_lines(net: Any) -> Iterator[str]:
    """Yield a net as text, its inputs and copies side by side sorted."""
    option = _option(net.device_option) if net.HasField("device_option") else ""
    settings = " ".join([f"type={net.type}", f"workers={net.num_workers}", *map(_argument, net.arg)])
    yield f"net {net.name} {settings}{option}"
    yield f"  in {' '.join(sorted(net.external_input))} out {' '.join(sorted(net.external_output))}"
    copies: list[str] = []
    for op in net.op:
        if op.type == "Copy":
            copies.append(operator_line(op))
            continue
        yield from ("  " + one for one in sorted(copies))
        copies = []
        yield "  " + operator_line(op)
    yield from ("  " + one for one in sorted(copies))


def model_lines(modules: Modules, model: Any) -> Iterator[str]:
    """Yield the nets of a model, and what is known of its blobs."""
    own = cast("dict[str, Any]", vars(model))
    for name, value in sorted(own.items()):
        if isinstance(value, modules.core.Net):
            yield name
            yield from net_lines(value.Proto())
    for name in ("_data_parallel_model_init_nets", "_data_parallel_model_nets"):
        nets = cast("list[Any]", own.get(name, []))
        yield f"{name} {' '.join(f'{one[0]} {one[1]} times' if isinstance(one, tuple) else str(one) for one in nets)}"
    groups = cast("dict[str, dict[int, Any]]", own["_device_grouped_blobs"])
    for name, group in groups.items():
        yield f"group {name}: {' '.join(str(group[device]) for device in sorted(group))}"
    yield f"params {' '.join(map(str, model.params))}; {' '.join(map(str, model.GetComputedParams('')))}"
    gradients = {str(param): model.param_to_grad[param] for param in model.param_to_grad}
    yield f"gradients {' '.join(f'{key}:{value}' for key, value in sorted(gradients.items(), key=str))}"
    if not model._shared_model:
        yield f"checkpoint {' '.join(sorted(map(str, modules.GetCheckpointParams(model))))}"
    yield f"rates {' '.join(modules.GetLearningRateBlobNames(model)) if own.get('_optimizer') else ''}"


def lines(modules: Modules, built: Any) -> Iterator[str]:
    """Yield what was built as text."""
    if isinstance(built, (list, tuple)):
        for one in cast("list[Any]", built):
            yield from lines(modules, one)
    elif isinstance(built, modules.model_helper.ModelHelper):
        yield from model_lines(modules, built)
    elif isinstance(built, modules.core.Net):
        yield from net_lines(built.Proto())
    else:
        yield str(built)


def net_case(modules: Modules, name: str) -> list[str]:
    """Return the lines of a case."""
    from tools.parallel_cases import cases

    modules.reset()
    return list(lines(modules, cases()[name](modules)))


def training_case(modules: Modules, name: str) -> dict[str, list[float]]:
    """Return the numbers of a training, by parameters."""
    from tools.parallel_cases import trainings

    modules.reset()
    found = trainings()[name](modules)
    return {key: [round(float(one), 7) for one in value.ravel()] for key, value in found.items()}


def recorded(modules: Modules) -> dict[str, Any]:
    """Return the lines of each case, and the numbers of each training."""
    from tools.parallel_cases import cases, trainings

    return {
        "nets": {name: net_case(modules, name) for name in cases()},
        "numbers": {name: training_case(modules, name) for name in trainings()},
    }


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    Path(sys.argv[1]).write_text(json.dumps(recorded(Modules()), indent=1) + "\n", encoding="utf-8")
