"""The commands that take images, `predict` and `quantize`: their options, handed over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tazza.cli.options import (
    MODEL_HELP,
    Axes,
    Colors,
    Dask,
    Device,
    Fit,
    Format,
    InitNet,
    Inputs,
    Invert,
    Labels,
    Made,
    Mean,
    OverwriteResults,
    Photographs,
    Preset,
    Range,
    Results,
    Save,
    Scale,
    Shorter,
    Size,
    Std,
    Trust,
    Workers,
)


def predict(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)],
    images: Photographs,
    top: Annotated[int, typer.Option(help="classes to print", min=1)] = 3,
    labels: Labels = None,
    format: Format = None,
    output: Annotated[str | None, typer.Option(help="NAME of the output to take. [default: the first]")] = None,
    pictures: Made = None,
    range: Range = None,
    batch_size: Annotated[int, typer.Option(help="images at a time", min=1)] = 16,
    out: Results = None,
    workers: Workers = None,
    dask: Dask = None,
    overwrite: OverwriteResults = False,
    save: Save = False,
    preset: Preset = None,
    size: Size = None,
    fit: Fit = None,
    shorter: Shorter = None,
    scale: Scale = None,
    mean: Mean = None,
    std: Std = None,
    colors: Colors = None,
    order: Axes = None,
    invert: Invert = None,
    init_net: InitNet = None,
    input: Inputs = None,
    device: Device = None,
    trust: Trust = False,
) -> None:
    """Print the most probable classes of images, or write the pictures that a net makes of them.

    What a net takes is (bytes * scale - mean) / std. An image that cannot be read is named, and the others go on; the
    exit status is 1 then.
    """
    from tazza.cli.image_options import ImageWish
    from tazza.cli.model_files import Loading, find_model
    from tazza.cli.predict import Wish
    from tazza.cli.predict import predict as run
    from tazza.cli.predict_bulk import BulkWish, predict_bulk
    from tazza.errors import ArgumentError

    files = find_model(model, init_net, Loading(() if input is None else input, device, trust))
    wished = ImageWish(preset, size, fit, shorter, scale, mean, std, colors, order, invert)
    wish = Wish(top, labels, format, output, pictures, range, batch_size, save, wished)
    if out is not None:
        bulk = BulkWish(out, 1 if workers is None else workers, overwrite, dask)
        raise typer.Exit(predict_bulk(files, images, wish, bulk))
    if workers is not None or overwrite or dask is not None:
        raise ArgumentError(
            "--workers, --dask and --overwrite need --out", hint="--out RESULTS.csv says where results go"
        )
    raise typer.Exit(run(files, images, wish))


def quantize(
    model: Annotated[Path, typer.Argument(help=MODEL_HELP)],
    data: Annotated[
        Path,
        typer.Option(
            help="images to calibrate with: an LMDB, a minidb, a folder with IDX files or pictures, or one such file"
        ),
    ],
    method: Annotated[str, typer.Option(help="min-max, percentile or entropy: how ranges are found")] = "min-max",
    weights: Annotated[str, typer.Option(help="scales of filters: one a channel, or one a tensor")] = "channel",
    keep: Annotated[
        list[str] | None, typer.Option(help="NAME of an output whose operator stays float32; may be repeated")
    ] = None,
    least_db: Annotated[
        float | None,
        typer.Option(
            help="keep the worst layers float32 until outputs have so much signal to error. [default: none for that]"
        ),
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="tell what each layer loses, with a picture")] = False,
    top: Annotated[int, typer.Option(help="layers to print", min=1)] = 20,
    images: Annotated[int, typer.Option(help="images to take", min=1)] = 256,
    batch_size: Annotated[int, typer.Option(help="images in a batch", min=1)] = 32,
    preset: Preset = None,
    size: Size = None,
    fit: Fit = None,
    shorter: Shorter = None,
    scale: Scale = None,
    mean: Mean = None,
    std: Std = None,
    colors: Colors = None,
    order: Axes = None,
    invert: Invert = None,
    out: Annotated[Path, typer.Option(help="folder for both nets, table and picture")] = Path("out/int8"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace the nets that are in --out")] = False,
    init_net: InitNet = None,
    input: Inputs = None,
    trust: Trust = False,
) -> None:
    """Make a net of bytes out of a float32 net, and tell what stays float32 and why.

    Into --out go init_net.pb and predict_net.pb, with --compare or --least-db a table (comparison.csv) and a picture
    (comparison.png) of what each layer loses. Compared is on the images that were calibrated with.
    """
    from tazza.cli.image_options import ImageWish
    from tazza.cli.model_files import Loading, find_model
    from tazza.cli.quantize import Data, Wish
    from tazza.cli.quantize import quantize as run

    files = find_model(model, init_net, Loading(() if input is None else input, None, trust))
    wish = Wish(method, weights, () if keep is None else keep, least_db, compare, top)
    wished = ImageWish(preset, size, fit, shorter, scale, mean, std, colors, order, invert)
    run(files, Data(data, images, batch_size, wished), wish, out, overwrite=overwrite)
