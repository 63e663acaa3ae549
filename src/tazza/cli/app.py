"""The commands and what all of them share: start-up, flags, and errors as messages.

A command is a function in a module of its name; the functions here only hand over, so that `tazza --help` imports
nothing of what they need.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tazza.cli import STATUS_OF_SIGNAL
from tazza.cli.compare import compare
from tazza.cli.completion import operator_types
from tazza.cli.image_commands import predict, quantize
from tazza.cli.interruption import Interrupted, raised_signals
from tazza.cli.options import Board, Device, Engines, Gamma, InitNet, Inputs, ParameterNet, TestData, TrainNet, Trust
from tazza.cli.train_commands import train_net
from tazza.errors import TazzaError

INTERRUPTED = STATUS_OF_SIGNAL + signal.SIGINT
"""Exit status of a program that SIGINT ended."""


class Commands(TyperGroup):
    """A group of commands that tells errors of tazza by message and hint; the traceback takes `--debug`."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the user chose."""
        try:
            with raised_signals():
                return super().invoke(ctx)
        except TazzaError as error:
            if ctx.params.get("debug"):
                raise
            from tazza.cli.console import make_console, print_error

            print_error(make_console(stderr=True), str(error))
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(error.status if isinstance(error, Interrupted) else INTERRUPTED) from error


class Trainings(TyperGroup):
    """A group of commands in which programs and nets are some too: `tazza train FILE.py`, `tazza train resnet50`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the words begin with, and what is left of them."""
        first = args[0] if args else ""
        program = first.endswith(".py")
        command = self.get_command(ctx, "program" if program else first)
        if (program or first == "lenet") and self._is_of_pictures(ctx, command, args[1:]):
            return super().resolve_command(ctx, ["net", *args])
        if program:
            return super().resolve_command(ctx, ["program", *args])
        named = command is not None or not first or first.startswith("-")
        return super().resolve_command(ctx, args if named else ["net", *args])

    def _is_of_pictures(self, ctx: Any, command: Any, args: list[str]) -> bool:
        """Whether options ask for what nets of the zoo are trained with: pictures, or how these change."""
        from tazza.cli.train_data import is_of_pictures

        own = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
        other = self.get_command(ctx, "net")
        assert other is not None, "it is below"
        known = {name for one in other.params for name in (*one.opts, *one.secondary_opts)}
        given = {word.partition("=")[0] for word in args}
        return bool(given & (known - own)) or is_of_pictures(args)


app = typer.Typer(
    cls=Commands,
    help="Train, run and look at nets in the Caffe2 format.",
    no_args_is_help=True,
    rich_markup_mode="markdown",  # not "rich", which takes `[default: ...]` for a style and leaves it out
    pretty_exceptions_enable=False,
)
train = typer.Typer(
    cls=Trainings,
    help="Train a model: one of these; a net of the zoo, or one from files, on your pictures: tazza train NET --data"
    " FOLDER; or a program: tazza train FILE.py.",
    no_args_is_help=True,
)
app.add_typer(train, name="train")


def _show_version(wanted: bool) -> None:
    if wanted:
        import tazza

        print(tazza.__version__)
        raise typer.Exit


@app.callback()
def start(
    flag: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of a process flag, such as num_threads=2; may be repeated")
    ] = None,
    module: Annotated[
        list[str] | None,
        typer.Option(help="load this extension first: an installed module, or FILE.py; may be repeated"),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="show the version", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Start the process up before any command."""
    from tazza.cli.extensions import start_with

    del debug, version  # Commands and the callback look at them
    start_with(() if module is None else module, () if flag is None else flag)


@train.command("lenet")
def train_lenet(
    data: Annotated[
        str | None,
        typer.Option(
            help="'digits' (those of scikit-learn), a folder with MNIST's IDX files, or a database: an LMDB folder or a"
            " minidb file. [default: digits]"
        ),
    ] = None,
    test_data: TestData = None,
    net: TrainNet = None,
    init_net: ParameterNet = None,
    iterations: Annotated[
        int | None, typer.Option(help="batches to learn from. [default: those of --epochs]", min=1)
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="rounds through the data. [default: 10]", min=0)] = None,
    batch_size: Annotated[int | None, typer.Option(help="images in a batch. [default: 64]", min=1)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="what the rate starts from. [default: 0.05]")] = None,
    momentum: Annotated[float | None, typer.Option(help="share of the last step in the next. [default: 0.9]")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="pull of weights towards 0. [default: 0.0005]")] = None,
    policy: Annotated[
        str | None, typer.Option(help="how the rate changes: poly, fixed, step, inv, exp ... [default: poly]")
    ] = None,
    gamma: Gamma = None,
    stepsize: Annotated[int | None, typer.Option(help="iterations of a step, of the policy step. [default: 1]")] = None,
    power: Annotated[float | None, typer.Option(help="of the policies poly and inv. [default: 1; 0.75 of inv]")] = None,
    solver: Annotated[str | None, typer.Option(help="optimizer. [default: sgd]")] = None,
    seed: Annotated[
        int | None, typer.Option(help="of the first parameters and of what is held back. [default: 1]", min=0)
    ] = None,
    engine: Engines = None,
    net_type: Annotated[
        str | None, typer.Option(help="how nets run: simple, async_scheduling, dag, plan ... [default: simple]")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="operators at a time, of parallel net types. [default: the threads]", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(help="folder for all that is written")] = Path("out/lenet"),
    tensorboard: Board = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="iterations. [default: an epoch]", min=1)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the checkpoint in --out")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the training that is in --out")] = False,
    trust: Trust = False,
) -> None:
    """Train LeNet on handwritten digits, and test it.

    The defaults of --resume are the options of the training that it goes on with. Into --out go the checkpoint, the
    nets (init_net.pb and predict_net.pb, lenet.minidb), history.csv and two pictures. Ctrl-C and SIGTERM end a training
    behind the present step, with a checkpoint.
    """
    own = {"out", "resume", "overwrite", "trust"}
    given = {key: value for key, value in locals().items() if value is not None and key not in own | {"own"}}
    from tazza.cli.train import train_lenet as run

    run(given, out, resume=resume, overwrite=overwrite, trust=trust)


@train.command("char-lstm")
def train_char_lstm(
    data: Annotated[str | None, typer.Option(help="text file (UTF-8). [default: that of --resume]")] = None,
    epochs: Annotated[float | None, typer.Option(help="rounds through the text. [default: 40]", min=0)] = None,
    iterations: Annotated[
        int | None, typer.Option(help="windows to learn from. [default: those of --epochs]", min=1)
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="parts of the text side by side. [default: 32]", min=1)] = None,
    steps: Annotated[int | None, typer.Option(help="characters of a window. [default: 32]", min=1)] = None,
    hidden: Annotated[int | None, typer.Option(help="units of a layer. [default: 192]", min=1)] = None,
    layers: Annotated[int | None, typer.Option(help="layers of LSTM. [default: 2]", min=1)] = None,
    dropout: Annotated[
        float | None, typer.Option(help="share of a layer's output that is dropped. [default: 0.5]")
    ] = None,
    input_dropout: Annotated[
        float | None, typer.Option(help="share of the characters that it does not see. [default: 0.05]")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="what Adam's rate falls from, in a straight line to 0. [default: 0.006]")
    ] = None,
    characters: Annotated[int | None, typer.Option(help="length of the sample. [default: 600]", min=0)] = None,
    seed: Annotated[int | None, typer.Option(help="of parameters, dropout and sample. [default: 1]", min=0)] = None,
    net_type: Annotated[
        str | None, typer.Option(help="how nets run: simple, async_scheduling, dag, plan ... [default: simple]")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="operators at a time, of parallel net types. [default: the threads]", min=1)
    ] = None,
    out: Annotated[Path, typer.Option(help="folder for all that is written")] = Path("out/char-lstm"),
    tensorboard: Board = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="iterations. [default: an epoch]", min=1)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the checkpoint in --out")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the training that is in --out")] = False,
) -> None:
    """Train an LSTM on a text, character by character; test it on the last tenth, and let it write.

    The defaults of --resume are the options of the training that it goes on with. Into --out go the checkpoint, the
    nets (init_net.pb and predict_net.pb) with their alphabet, history.csv, a picture of both losses, and a sample.
    Ctrl-C and SIGTERM end a training behind the present step, with a checkpoint.
    """
    own = {"out", "resume", "overwrite"}
    given = {key: value for key, value in locals().items() if value is not None and key not in own | {"own"}}
    from tazza.cli.train_text import train_char_lstm as run

    run(given, out, resume=resume, overwrite=overwrite)


@train.command("program")
def train_program(
    program: Annotated[Path, typer.Argument(help="FILE.py that declares a tazza.models.task.TrainingTask; it is run")],
    set: Annotated[list[str] | None, typer.Option(help="NAME=VALUE of a field of the task; may be repeated")] = None,
    iterations: Annotated[int | None, typer.Option(help="steps. [default: what the task says]", min=1)] = None,
    seed: Annotated[int | None, typer.Option(help="of operators that draw. [default: 1]", min=0)] = None,
    net_type: Annotated[
        str | None, typer.Option(help="how the net runs: simple, async_scheduling, dag, plan ... [default: as it says]")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="operators at a time, of parallel net types. [default: the threads]", min=1)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder for all that is written. [default: out/FILE]")] = None,
    tensorboard: Board = None,
    checkpoint_every: Annotated[int | None, typer.Option(help="iterations. [default: a tenth of them]", min=1)] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on from the checkpoint in --out")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the training that is in --out")] = False,
) -> None:
    """Train what a program declares, and test it; `tazza train FILE.py` is short for this.

    The defaults of --resume are the options of the training that it goes on with. Into --out go the checkpoint, the
    nets that predict (init_net.pb and predict_net.pb, where the task has them), figures.json, history.csv and a picture
    of the loss. Ctrl-C and SIGTERM end a training behind the present step, with a checkpoint.
    """
    from tazza.cli.train_task import options_of, train_task

    named = {"iterations": iterations, "seed": seed, "net_type": net_type, "workers": workers}
    named |= {"checkpoint_every": checkpoint_every, "tensorboard": tensorboard}
    given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if set is not None:
        given["options"] = options_of(set)
    folder = Path("out") / program.stem.replace("_", "-") if out is None else out
    train_task(program, given, folder, resume=resume, overwrite=overwrite)


train.command("net")(train_net)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def launch(
    command: Annotated[list[str], typer.Argument(help="what runs on each rank: train resnet50, train FILE.py ...")],
    ranks: Annotated[
        int | None, typer.Option(help="processes to start on this machine. [default: mpirun or srun has]", min=1)
    ] = None,
    logs: Annotated[
        Path | None, typer.Option(help="folder for what each rank prints, a file a rank. [default: none]")
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="write a trace of some steps of all ranks for Perfetto (JSON). [default: none]"),
    ] = None,
) -> None:
    """Train on several ranks: processes that each take a share of every batch, and learn as one.

    Options of the command follow it; its batch size is that of all ranks together. Rank 0 prints, tests and writes;
    where a rank fails, the others say which, and all end. Within mpirun, srun or a job of Kubernetes that sets up MPI
    the same command joins the ranks that are there.
    """
    from tazza.cli.launch import launch as run

    run(command, ranks, logs, trace)


app.command()(predict)


@app.command()
def show(
    net: Annotated[
        Path | None, typer.Argument(help="a net (.pb, .pbtxt), a predictor minidb, or lenet and such")
    ] = None,
    init_net: InitNet = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="NAME=1,1,28,28 of an input (float32, or NAME:uint8=...); may be repeated")
    ] = None,
    input: Inputs = None,
    picture: Annotated[
        Path | None, typer.Option(help="draw the net into this SVG file instead. [default: none]")
    ] = None,
    operator: Annotated[
        str | None,
        typer.Option(
            help="show what is known of an operator type. [default: a net is shown]", autocompletion=operator_types
        ),
    ] = None,
) -> None:
    """Show the operators of a net with shapes, parameters and operations; or an operator type."""
    from tazza.cli.ops import show_operator
    from tazza.cli.show import show_net
    from tazza.errors import ArgumentError

    if (net is None) == (operator is None):
        raise ArgumentError("show takes a net or --operator", hint="tazza show predict_net.pb, or --operator Conv")
    if operator is not None:
        show_operator(operator)
    if net is not None:
        show_net(net, init_net=init_net, shapes=shape or (), inputs=input or (), picture=picture)


@app.command()
def ops(
    type: Annotated[
        str | None, typer.Argument(help="an operator type, such as Conv; all without it", autocompletion=operator_types)
    ] = None,
    family: Annotated[
        str | None, typer.Option(help="list those of a family or a field, such as nn.conv or nn. [default: all]")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="list those that an engine has, such as onednn. [default: all]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON, for programs")] = False,
) -> None:
    """List operators by family with the engines that have them; or show one: shapes, arguments, errors, example."""
    from tazza.cli.ops import list_operators, show_operator
    from tazza.errors import ArgumentError

    if type is None:
        list_operators(family=family, engine=engine, as_json=as_json)
    elif family is not None or engine is not None:
        raise ArgumentError(
            "ops takes an operator type, or --family and --engine to list some", hint=f"tazza ops {type}"
        )
    else:
        show_operator(type, as_json=as_json)


@app.command()
def profile(
    net: Annotated[
        str, typer.Argument(help="predictor minidb, predict net, folder with both nets, or a name such as resnet50")
    ],
    init_net: InitNet = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="NAME=1,1,28,28 of an input (float32, or NAME:uint8=...); may be repeated")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="first extent of every input. [default: as its shape says]", min=1)
    ] = None,
    type: Annotated[
        str | None, typer.Option(help="net type: simple, plan, async_scheduling ... [default: as predict runs it]")
    ] = None,
    workers: Annotated[int, typer.Option(help="of parallel types. [default: as many as threads]", min=0)] = 0,
    runs: Annotated[int, typer.Option(help="runs to measure", min=1)] = 10,
    top: Annotated[int, typer.Option(help="rows of operators and types to print", min=1)] = 20,
    trace: Annotated[Path | None, typer.Option(help="write a trace for Perfetto (JSON). [default: none]")] = None,
    picture: Annotated[Path | None, typer.Option(help="draw the last run (.png, .svg, .pdf). [default: none]")] = None,
    input: Inputs = None,
    device: Device = None,
    trust: Trust = False,
) -> None:
    """Show where the time of a net goes: by operator, type and lane, with what profiling costs."""
    from tazza.cli.model_files import Loading
    from tazza.cli.profile import Request
    from tazza.cli.profile import profile as run

    loading = Loading(() if input is None else input, device, trust)
    request = Request(net, init_net, [] if shape is None else shape, batch, type, workers, loading)
    run(request, runs=runs, top=top, trace=trace, picture=picture)


@app.command()
def view(
    net: Annotated[
        str, typer.Argument(help="predictor minidb, predict net, folder with both nets, or a name such as resnet50")
    ],
    init_net: InitNet = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="NAME=1,1,28,28 of an input (float32, or NAME:uint8=...); may be repeated")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(help="first extent of every input. [default: as its shape says]", min=1)
    ] = None,
    runs: Annotated[int, typer.Option(help="runs to measure; 0: run nothing", min=0)] = 5,
    workers: Annotated[int, typer.Option(help="of a run side by side; 0: no such run", min=0)] = 2,
    out: Annotated[Path, typer.Option(help="the page")] = Path("out/view.html"),
    input: Inputs = None,
    device: Device = None,
    trust: Trust = False,
) -> None:
    """Write one HTML page that shows a net: its graph before and after each pass, engines, times, memory."""
    from tazza.cli.model_files import Loading
    from tazza.cli.profile import Request
    from tazza.cli.view import Measuring
    from tazza.cli.view import view as run

    loading = Loading(() if input is None else input, device, trust)
    run(Request(net, init_net, [] if shape is None else shape, batch, loading=loading), Measuring(runs, workers), out)


app.command()(quantize)
app.command()(compare)


@app.command()
def migrate(
    programs: Annotated[list[Path], typer.Argument(help="programs (.py), or folders of them")],
    json: Annotated[bool, typer.Option("--json", help="print all of it for another program")] = False,
) -> None:
    """Show what old programs use of Caffe2, what of it is there, and what it is called in tazza.

    Nothing of them is executed. Programs of Python 2 are read too, and what has to be changed in them is shown. The
    exit status is 0 if every name is there, 1 if one is not, or a file is no program.
    """
    from tazza.cli.migrate import migrate as run

    raise typer.Exit(run(programs, as_json=json))


@app.command()
def doctor(
    memory: Annotated[bool, typer.Option(help="caches instead, with their bounds, and compiled code on disk")] = False,
) -> None:
    """Show engines with reasons, threads, versions of libraries, and devices; or what is kept in memory."""
    from tazza.cli.doctor import doctor as run
    from tazza.cli.memory import show_memory

    (show_memory if memory else run)()


@app.command()
def flags() -> None:
    """Show the flags of the process: what they take, the values in force, and where these come from."""
    from tazza.cli.flags import show_flags

    show_flags()
