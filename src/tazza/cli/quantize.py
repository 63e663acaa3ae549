"""`tazza quantize`: a float32 net becomes one of bytes, and what each layer loses is told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tazza.cli.console import left_out, make_console, print_text
from tazza.cli.image_options import ImageWish, choose_preprocessing
from tazza.cli.model_files import ModelFiles
from tazza.cli.progress import Counted
from tazza.cli.table import Column, Row, print_table
from tazza.cli.train_folder import make_writable, remove_results
from tazza.data_class import dataclass
from tazza.errors import FileError
from tazza.interop import PredictorFile, parameter_fill
from tazza.interop.image_needs import ImageNeeds, image_input, image_needs
from tazza.interop.int8 import (
    Calibrated,
    Comparison,
    Examples,
    Quantized,
    compare,
    draw_comparison,
    file_examples,
    mend,
    watch_nets,
)
from tazza.interop.int8.method import find_method
from tazza.interop.model_folder import INIT, PREDICT
from tazza.interop.predictor_file import ROLES
from tazza.proto import NetDef
from tazza.proto.message import read_message, write_message
from tazza.runtime.files import kind_of, shown

TABLE, PICTURE = "comparison.csv", "comparison.png"
RESULTS = (INIT, PREDICT, TABLE, PICTURE)
COLUMNS = ("blob", "operator", "in", "dB", "adds", "largest error", "clipped")
TEXT_COLUMNS = 3


@dataclass(frozen=True, slots=True)
class Wish:
    """How a net is to be quantized; `least_db`: leave the worst layers in float32 until the outputs are so near."""

    method: str
    weights: str
    keep: Sequence[str] = ()
    least_db: float | None = None
    compare: bool = False
    top: int = 20


@dataclass(frozen=True, slots=True)
class Data:
    """What to calibrate and compare with; `most`: how many images."""

    path: Path
    most: int
    batch_size: int
    images: ImageWish


def quantize(model: ModelFiles, data: Data, wish: Wish, out: Path, *, overwrite: bool) -> None:
    """Write the nets of bytes into a folder, with a table and a picture of what layers lose where that is asked for.

    Raises:
        FileError: a file is missing, or the folder holds nets already.
        TazzaError: a file is broken, the net does not run on the data, or is never near enough.
    """
    console = make_console()
    find_method(wish.method)  # before minutes are spent on images
    make_writable(out)
    there = [name for name in RESULTS if kind_of(out / name) is not None]
    if there and not overwrite:
        raise FileError(
            f"{shown(out)} holds nets already: {', '.join(there)}",
            hint="--overwrite replaces them, --out names another folder",
        )
    nets = read_nets(model)
    prepare = choose_preprocessing(data.images, model, nets.needs).prepare
    examples = file_examples(data.path, nets.input, prepare=prepare, batch_size=data.batch_size, most=data.most)
    with Counted(console, "batches watched", examples.batches) as told:
        seen = watch_nets(nets.init, nets.predict, examples, told=told, trust=model.loading.trust)
    small, compared = _made(seen, examples, wish, console)
    remove_results(out, there)
    write_message(out / INIT, small.init_net)
    write_message(out / PREDICT, small.predict_net)
    _tell(console, small)
    if compared is not None:
        compared.write_csv(out / TABLE)
        title = f"{nets.predict.name}: {wish.method}, {compared.examples} images"
        with left_out(console, "picture"):
            draw_comparison(out / PICTURE, compared, title=title)
        _print(console, compared, wish.top)
    print_text(console, f"nets: {out / INIT}, {out / PREDICT}")
    if compared is not None:
        print_text(console, f"table: {out / TABLE}")
        if kind_of(out / PICTURE) is not None:
            print_text(console, f"picture: {out / PICTURE}")


def _made(seen: Calibrated, examples: Examples, wish: Wish, console: Console) -> tuple[Quantized, Comparison | None]:
    if wish.least_db is not None:
        with Counted(console, "layers kept in float32", len(seen.net.op)) as told:
            found = mend(
                seen,
                examples,
                least=wish.least_db,
                method=wish.method,
                weights=wish.weights,
                keep=wish.keep,
                told=told,
            )
        return found.quantized, found.comparison
    small = seen.quantized(method=wish.method, weights=wish.weights, keep=wish.keep)
    if not wish.compare:
        return small, None
    with Counted(console, "batches compared", examples.batches) as told:
        return small, compare(small, examples, told=told)


# -- what is read ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FloatNets:
    """The nets of a model, its input that takes images, and what it says of these."""

    init: NetDef
    predict: NetDef
    input: str
    needs: ImageNeeds


def read_nets(model: ModelFiles) -> FloatNets:
    """Read a model, whose parameters become fills of the init net.

    Raises:
        ArgumentError: it has several inputs, or none.
        TazzaError: a file is missing or broken.
    """
    with model.load() as predictor:
        if model.is_net:
            predict = read_message(model.main, NetDef)
        else:
            predict = PredictorFile.read(model.main).net(ROLES.PREDICT_NET_TYPE)
        del predict.external_output[:]
        predict.external_output.extend(predictor.outputs)
        name = image_input(predictor)
        read = dict.fromkeys(blob for op in predict.op for blob in op.input)
        space = predictor.workspace
        held = [blob for blob in read if blob != name and space.has_blob(blob)]
        init = NetDef(name=f"{predict.name}_init", op=[parameter_fill(blob, space.fetch(blob)) for blob in held])
        return FloatNets(init, predict, name, image_needs(predictor))


# -- what is told ------------------------------------------------------------------------------------------------------


def _tell(console: Console, small: Quantized) -> None:
    count = len(small.net.op)
    print_text(console, f"{count - len(small.kept)} of {count} operators compute in bytes")
    for name, reason in small.kept.items():
        print_text(console, f"  {name} stays float32: {reason}")


def _print(console: Console, compared: Comparison, top: int) -> None:
    rows = compared.worst()[:top]
    same = "" if compared.agreement is None else f", the same class for {compared.agreement:.2%}"
    told = f"{compared.signal_db:.1f} dB signal to error of the outputs, {compared.examples} images{same}"
    print_text(console, told)
    print_text(console, f"\nlayers that add most noise ({len(rows)} of {len(compared.rows)}):")
    columns = [Column(title, number=place >= TEXT_COLUMNS) for place, title in enumerate(COLUMNS)]
    print_table(console, columns, [Row(tuple(row.cells())) for row in rows])
