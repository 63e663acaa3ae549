"""`tazza predict`: what a net says of images, or the pictures that it makes of them.

Images go through in batches of one shape. What cannot be read or does not fit is named, and the rest goes on; no more
than a batch lies in memory, but for arrays and IDX files, each of which is read at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tazza.cli.console import make_console, print_text
from tazza.cli.image_options import Chosen, ImageWish, choose_preprocessing, read_numbers, settings_beside
from tazza.cli.model_files import ModelFiles, describe
from tazza.cli.predict_pictures import PictureFolder
from tazza.cli.predict_results import Results, make_results
from tazza.cli.progress import Counted
from tazza.data_class import dataclass
from tazza.errors import ArgumentError, FileError, ShapeError, TazzaError
from tazza.images import Preprocessing, image_files, read_labels
from tazza.images.classes import Image, classify
from tazza.images.output import is_picture
from tazza.interop import Predictor
from tazza.interop.answers import NO_CLASSES, PER_IMAGE, answers, file_images
from tazza.interop.image_needs import fitting_size, image_needs
from tazza.runtime.files import kind_of, shown, write_bytes_atomically

LABELS_BESIDE = "labels.txt"
"""What labels are called beside a model."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user wants; texts as they were typed."""

    top: int = 3
    labels: Path | None = None
    format: str | None = None
    output: str | None = None
    pictures: Path | None = None
    range: str | None = None
    batch_size: int = 16
    save: bool = False
    images: ImageWish = field(default_factory=ImageWish)


def predict(model: ModelFiles, inputs: Sequence[Path], wish: Wish) -> int:
    """Print what a net says of images; return the exit status, 1 where one of them failed.

    Raises:
        TazzaError: the model, a folder or an option is wrong; nothing is printed then.
    """
    console = make_console()
    results = make_results(wish.format, console)
    told_on = make_console(stderr=True)
    if console.is_terminal and told_on.is_terminal:
        told_on = console  # a bar on the same screen has to know of lines
    files = list(files_of(inputs))
    with model.load(outputs=None if wish.output is None else [wish.output]) as predictor:
        chosen = choose_preprocessing(wish.images, model, image_needs(predictor))
        labels = labels_of(wish, model)
        pictures = (
            None if wish.pictures is None else PictureFolder(wish.pictures, inputs, chosen.prepare, _limits(wish))
        )
        if wish.save:
            save_settings(model, chosen.prepare, wish.labels)
        with Counted(told_on, "images", len(files)) as told:
            if chosen.file is not None and told_on.is_terminal:
                told.note(f"pictures as {chosen.file} says")
            run = _Run(model, predictor, chosen, wish, labels, results, pictures, told)
            run.all(files)
        results.end()
        return run.end()


def files_of(inputs: Sequence[Path]) -> Iterator[Path]:
    """Give files, and those of folders.

    Raises:
        FileError: a folder has no images.
    """
    for path in inputs:
        if kind_of(path) != "folder":
            yield path
            continue
        found = list(image_files(path))
        if not found:
            raise FileError(
                f"folder {shown(path)} has no images",
                hint="name files, or a folder of .jpg, .png, .npy ...; of a database with --out RESULTS.csv",
            )
        yield from found


def labels_of(wish: Wish, model: ModelFiles) -> tuple[str, ...] | None:
    """Return what classes are called, by the file that the user names or the one beside the model; None: numbers.

    Raises:
        FileError, FormatError: the file is missing or broken.
    """
    beside = model.main.with_name(LABELS_BESIDE)
    if wish.labels is None and (wish.pictures is not None or kind_of(beside) is None):
        return None
    return read_labels(beside if wish.labels is None else wish.labels)


def _limits(wish: Wish) -> tuple[float, float] | None:
    if wish.range is None:
        return None
    found = read_numbers(wish.range, "--range")
    if len(found) != 2:
        raise ArgumentError(f"--range {wish.range!r} is no pair", hint="BLACK,WHITE such as 0,1 or -1,1")
    return found[0], found[1]


def save_settings(model: ModelFiles, prepare: Preprocessing, labels: Path | None) -> None:
    """Keep what is done to pictures, and labels, beside a model."""
    prepare.write(settings_beside(model))
    if labels is not None:
        text = "".join(f"{label}\n" for label in read_labels(labels))
        write_bytes_atomically(model.main.with_name(LABELS_BESIDE), text.encode())


@dataclass(slots=True)
class _Run:
    """A walk over all images; `taken` counts them, `failures` what went wrong; `hints` are those that were given."""

    model: ModelFiles
    predictor: Predictor
    chosen: Chosen
    wish: Wish
    labels: tuple[str, ...] | None
    results: Results
    pictures: PictureFolder | None
    told: Counted
    taken: int = 0
    failures: int = 0
    hints: set[str] = field(default_factory=set[str])

    def all(self, files: Sequence[Path]) -> None:
        """Run all images, and tell of each in its turn."""
        size = self.wish.batch_size
        for answered in answers(self.predictor, self._images(files), batch_size=size, explain=self._explained):
            for image, found in answered:
                self.taken += 1
                if isinstance(found, TazzaError):
                    self._failed(image, found)
                else:
                    self._take(image, found)
            self.results.flush()

    def end(self) -> int:
        """Tell how many images failed, and return the exit status."""
        if self.failures and self.taken > 1:
            print_text(make_console(stderr=True), f"{self.failures} of {self.taken} images failed")
        return 1 if self.failures else 0

    def _images(self, files: Sequence[Path]) -> Iterator[tuple[Image, NDArray[Any] | TazzaError]]:
        for done, path in enumerate(files):
            self.told(done)
            yield from file_images(path, self.chosen.prepare, self.wish.batch_size)
        self.told(len(files))

    def _take(self, image: Image, output: NDArray[Any]) -> None:
        try:
            if self.pictures is not None:
                self.results.picture(image, self.pictures.write(image, output))
                return
            if sum(extent > 1 for extent in output.shape) > 1:
                raise ShapeError(
                    f"the net makes numbers of shape {output.shape} of an image, not one for each class",
                    hint="--pictures FOLDER writes them" if is_picture(output, self.chosen.prepare) else NO_CLASSES,
                )
            self.results.classes(classify(image, output, self.wish.top, self.labels))
        except PER_IMAGE as error:
            self._failed(image, error)

    def _explained(self, image: Image, numbers: NDArray[Any], error: TazzaError) -> TazzaError:
        """Return the error, or one that says which size the net takes where that is what is wrong."""
        if not isinstance(error, ShapeError):
            return error
        order = self.chosen.prepare.order
        told = describe(self.model).inputs
        found = fitting_size(self.predictor, numbers, order, told)
        if found is None:
            return error
        H, W = numbers.shape[1:] if order == "NCHW" else numbers.shape[:2]
        size = found.size
        wanted = f"{size[0]}" if size[0] == size[1] else f"{size[0]},{size[1]}"
        comes = "is" if self.chosen.prepare.size is None else "is scaled to"
        more = " or more" if found.or_more else ""
        return ShapeError(
            f"{image} {comes} {W}x{H}, this net takes {size[1]}x{size[0]}{more}",
            hint=f"--size {wanted} scales pictures; --fit crop keeps their shape",
        )

    def _failed(self, image: Image, error: TazzaError) -> None:
        self.failures += 1
        told = error.message if str(image.path) in error.message else f"{image}: {error.message}"
        self.results.failed(image, error.message)
        lines = [told, *(f"  {line}" for line in error.where)]
        if error.hint is not None and error.hint not in self.hints:
            self.hints.add(error.hint)
            lines.append(f"  hint: {error.hint}")
        self.told.error("\n".join(lines))
