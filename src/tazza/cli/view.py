"""`tazza view`: a net as one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tazza.cli.console import make_console, print_text
from tazza.cli.model_files import Described, describe, find_model
from tazza.cli.profile import Request, check_target, made
from tazza.cli.show import read_shape
from tazza.cli.zoo_nets import describe_zoo, is_of_zoo
from tazza.data_class import dataclass
from tazza.errors import TazzaError
from tazza.nets import NetBase, create_net
from tazza.nets.base import PLAN
from tazza.nets.plan.rewrite import passes_over
from tazza.observers.recorder import profile_net
from tazza.observers.view import Ran, Subject, document_of, write_page
from tazza.operator import Spec, find_argument, make_argument
from tazza.proto import NetDef
from tazza.runtime.files import kind_of, make_folder, status_of
from tazza.runtime.threads import thread_count
from tazza.runtime.units import size
from tazza.tensor import Tensor, TensorSpec

SIDE_BY_SIDE = "async_scheduling"
"""The net type of the run whose operators are those of the net as it is written."""

ONE_OPERATOR = "threads_per_operator"
"""The argument of a net that bounds the threads of an operator, so that others have some too."""


@dataclass(frozen=True, slots=True)
class Measuring:
    """What is to be run: so many runs as a plan, and as many with `workers` operators side by side; 0: none."""

    runs: int
    workers: int


def view(request: Request, measuring: Measuring, out: Path) -> None:
    """Write a page that shows a net: operators, passes, engines, times, memory; print where it is.

    What cannot run, since it comes without parameters or shapes, is shown without what a run would tell.

    Raises:
        TazzaError: a file is missing or broken, shapes do not fit the net, or the page cannot be written.
    """
    check_target(out, request)
    console = make_console()
    subject = subject_of(request, measuring)
    make_folder(out.parent)
    document = document_of(subject)
    write_page(out, document)
    for note in document["notes"]:
        print_text(console, note)
    print_text(console, f"page: {out} ({size(status_of(out).st_size)}, {len(subject.net.op)} operators)")


def subject_of(request: Request, measuring: Measuring) -> Subject:
    """Return what is known of a model, by a run where there can be one."""
    path, shapes = Path(request.model), request.shapes
    if is_of_zoo(request.model):
        described, lacking = describe_zoo(request.model, 1 if request.batch is None else request.batch), ""
    else:
        files = find_model(path, request.init_net, request.loading)
        described = describe(files)
        lacking = "there is no net that makes its parameters" if files.is_net and files.init is None else ""
    lacking = "nobody asked for a run" if measuring.runs == 0 else lacking
    if lacking:
        return _subject(described, shapes, [f"it did not run: {lacking}"])
    try:
        return _run(request, measuring)
    except TazzaError as error:
        return _subject(described, shapes, [f"it did not run: {error}"])


def _subject(described: Described, shapes: Sequence[str], notes: Sequence[str]) -> Subject:
    given = dict(map(read_shape, shapes))
    specs = {**described.parameters, **described.inputs, **given}
    return Subject(described.net, specs, dict(described.parameters), notes=notes)


def _run(request: Request, measuring: Measuring) -> Subject:
    """Run a model side by side and then as a plan, which keeps weights in layouts of its own."""
    with made(replace(request, type=PLAN)) as running:
        net = running.net
        beside = _ran_beside(net, measuring)
        ran = Ran(net.explain(), profile_net(net, runs=measuring.runs))
        definition, context, _, _ = passes_over(net.definition, net.workspace)
        specs = _specs(net)
        data = {one.name for one in running.inputs}
        parameters: dict[str, Spec | None] = {name: spec for name, spec in specs.items() if name not in data}
        ran = replace(ran, explanation=net.explain())
        definition.name = _name(request, definition)
        return Subject(definition, specs, parameters, context, ran, beside, running.notes())


def _name(request: Request, net: NetDef) -> str:
    """Return what to call a net: one of the zoo as it was asked for, since nets that are made in turn get numbers."""
    return net.name if kind_of(Path(request.model)) is not None else request.model


def _ran_beside(plan: NetBase, measuring: Measuring) -> Ran | None:
    if measuring.workers == 0:
        return None
    definition = NetDef()
    definition.CopyFrom(plan.definition)
    definition.type, definition.num_workers = SIDE_BY_SIDE, measuring.workers
    if find_argument(definition, ONE_OPERATOR) is None:
        definition.arg.append(make_argument(ONE_OPERATOR, max(1, thread_count() // measuring.workers)))
    net = create_net(definition, plan.workspace)
    try:
        profile = profile_net(net, runs=measuring.runs)
        return Ran(net.explain(), profile)
    finally:
        net.close()


def _specs(net: NetBase) -> dict[str, Spec]:
    """Return the specs of the tensors that a net reads from outside."""
    found: dict[str, Spec] = {}
    for name in net.definition.external_input:
        blob = net.workspace.get_blob(name)
        if blob is not None and isinstance(blob.value, Tensor):
            value = blob.value
            found[name] = TensorSpec(value.spec.dims, value.dtype, quantization=value.quantization)
    return found
