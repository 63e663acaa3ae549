"""Record which element types the genuine Caffe2 takes, operator by operator, into `tests/data/types.json`.

Needs Caffe2 as it came with PyTorch 1.8.1, Python 3.8 and NumPy 1.23, and nothing of tazza; this file therefore runs
on Python 3.8 too:

    python3.8 tools/record_types.py          # all operators; some minutes
    python3.8 tools/record_types.py new      # those that have runs in tests/data/golden, and no line here
    python3.8 tools/record_types.py Add Sub

Templates are the recorded runs in `tests/data/golden`: each input alone, all inputs of one element type together, and
all inputs, are fed in each element type (`in_type`), and the arguments that name a type (`dtype`, `to`) get each of
them. A child process runs this, so that a crash is an outcome. It runs twice, once where new memory is full of zeros
and once where it is full of junk: where the results differ, they are what was in memory.

A line of the file is an operator: `{case: {what was fed: {element type: outcome}}}`. An outcome is the element types
of the outputs, `crash`, or `undefined`; a type that is not named was refused. Of cases with the same outcomes the
smallest is kept. `tests/data/types.npz` holds results of what was taken: `Operator/case/fed/type` the bytes of all
outputs, one after the other.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
NAMES = ("float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool", "string")
"""The element types that a blob of Caffe2 can hold, as NumPy and DataType.label call them."""

NUMBERS = {
    "float32": 1,
    "int32": 2,
    "string": 4,
    "bool": 5,
    "uint8": 6,
    "int8": 7,
    "uint16": 8,
    "int16": 9,
    "int64": 10,
    "float16": 12,
    "float64": 13,
}
"""Their numbers in `TensorProto.DataType`."""

ARGUMENTS = ("dtype", "to")
"""Arguments that name an element type by its number."""

MEMORY = ("zero", "junk")
"""What new memory of Caffe2 is filled with."""

SECONDS = 20
"""How long a run may take; one that hangs counts as a crash."""

LARGE = 2**40
"""Added to the size of templates of single numbers: they come last."""

KEPT_BYTES = 4096
"""Results are kept of templates with at most so many bytes of outputs."""


MODULES = ("caffe2.python.core", "caffe2.python.workspace", "caffe2.proto.caffe2_pb2")


class Client(NamedTuple):
    """The modules of the genuine Caffe2."""

    core: Any
    workspace: Any
    protos: Any


class Template(NamedTuple):
    """A recorded run: its name, the OperatorDef, its inputs, and how late it comes (its bytes)."""

    case: str
    definition: bytes
    inputs: list[Any]
    size: int


def in_type(value: Any, name: str) -> Any:
    """Return `value` in the element type `name`.

    Floats become few small integers, none of them 0 (which divides) and none negative where there are none; integers
    keep their values; text counts its letters.
    """
    if value.dtype == object or value.dtype.kind == "S":
        counted = np.array([len(one) for one in value.ravel()], np.int64).reshape(value.shape)
        return value.astype(object) if name == "string" else in_type(counted, name)
    target = None if name == "string" else np.dtype(name)
    if value.dtype.kind == "f" and (target is None or target.kind != "f"):
        whole = np.rint(4 * np.clip(np.nan_to_num(value), -1.5, 1.5)).astype(np.int64)
        whole = np.where(whole == 0, 1, whole)
        value = whole % 2 == 1 if name == "bool" else whole
    if target is None:
        texts = np.array([str(int(one)).encode() for one in np.ravel(value)], object)
        return texts.reshape(np.shape(value))
    if target.kind == "u":
        value = np.abs(value.astype(np.int64))
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(target)


def feeds(inputs: list[Any]) -> list[tuple[int, ...]]:
    """Return the groups of inputs that are fed together: each alone, those of one element type, and all."""
    groups: list[tuple[int, ...]] = [(i,) for i in range(len(inputs))]
    kinds = {value.dtype: tuple(i for i, one in enumerate(inputs) if one.dtype == value.dtype) for value in inputs}
    groups.extend(group for group in (*kinds.values(), tuple(range(len(inputs)))) if group)
    return sorted(set(groups), key=lambda group: (len(group), group))


def label(group: tuple[int, ...]) -> str:
    """Return how a group of inputs is called in the file: their positions.

    >>> label((0, 2))
    '0,2'
    """
    return ",".join(map(str, group))


def templates(folder: Path, operator: str) -> Iterator[Template]:
    """Yield the recorded runs of an operator whose inputs are tensors."""
    with np.load(str(folder / f"{operator}.npz"), allow_pickle=False) as stored:
        for case in sorted({key.split("/")[0] for key in stored.files}):
            keys = [key[len(case) + 1 :] for key in stored.files if key.startswith(case + "/in")]
            if any(key.endswith("_int8") for key in keys):
                continue  # whole numbers with a scale: their element type belongs to the kind of blob
            count = len(keys)
            inputs = [stored[f"{case}/in{i}"] for i in range(count)]
            outputs = sum(stored[key].nbytes for key in stored.files if key.startswith(case + "/out"))
            size = sum(value.nbytes for value in inputs) + outputs
            size += LARGE * (not any(value.size > 1 for value in inputs))
            yield Template(case, stored[case + "/op"].tobytes(), inputs, size)


# -- the child process: Caffe2 -----------------------------------------------------------------------------------------


def serve(folder: Path, memory: str) -> None:
    """Answer each line of standard input, `[operator, case, fed, type]`, with a line of outcome and results."""
    client = Client(*map(import_module, MODULES))
    client.core.GlobalInit(["record_types", f"--caffe2_cpu_allocator_do_{memory}_fill=1", "--caffe2_log_level=4"])
    load_detectron()
    known: dict[str, dict[str, Template]] = {}
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        operator, case, fed, name = json.loads(line)
        if operator not in known:
            known = {operator: {one.case: one for one in templates(folder, operator)}}
        outcome, results = judged(client, known[operator][case], fed, name)
        client.workspace.ResetWorkspace()  # what wrote behind its memory dies here, before it has answered
        answers.write(json.dumps([outcome, [as_bytes(one).hex() for one in results]]) + "\n")
        answers.flush()


def load_detectron() -> None:
    """Load Detectron's operators, which are a library of their own beside PyTorch's."""
    library = Path(str(import_module("torch").__file__)).parent / "lib" / "libcaffe2_detectron_ops_gpu.so"
    import_module("caffe2.python.dyndep").InitOpsLibrary(str(library))


def run(client: Client, template: Template, fed: str, name: str) -> list[Any] | None:
    """Run a template with inputs or an argument in another type; returns the outputs, None where it is refused."""
    workspace = client.workspace
    workspace.ResetWorkspace()
    definition = client.protos.OperatorDef.FromString(template.definition)
    fed_blobs = {definition.input[i] for i in positions(fed)}
    for i, value in enumerate(template.inputs):
        given = in_type(value, name) if definition.input[i] in fed_blobs else value
        workspace.FeedBlob(definition.input[i], given.astype(object) if given.dtype.kind == "S" else given)
    if fed in ARGUMENTS:
        set_argument(definition, fed, NUMBERS[name])
    try:
        workspace.RunOperatorOnce(definition)
        return [elements(workspace, output) for output in definition.output]
    except Exception:
        return None


def elements(workspace: Any, name: str) -> Any:
    """Return a blob as an array; of whole numbers with a scale the numbers."""
    try:
        return np.array(workspace.FetchBlob(name))
    except TypeError:  # what FetchBlob says of these
        return np.array(workspace.FetchInt8Blob(name).data)


def type_name(result: Any) -> str:
    """Return the element type of a result."""
    return "string" if result.dtype.kind in "SUO" else str(result.dtype.name)


def positions(fed: str) -> tuple[int, ...]:
    """Return the positions of the inputs that are fed; none where it is an argument."""
    return () if fed in ARGUMENTS or not fed else tuple(map(int, fed.split(",")))


def set_argument(definition: Any, name: str, number: int) -> None:
    """Give an argument another value."""
    kept = [argument for argument in definition.arg if argument.name != name]
    del definition.arg[:]
    definition.arg.extend(kept)
    argument = definition.arg.add()
    argument.name, argument.i = name, number


def judged(client: Client, template: Template, fed: str, name: str) -> tuple[str, list[Any]]:
    """Return the outcome of a run, and its results; `undefined` where they are not what the numbers amount to.

    An output that overwrites an input gives that its own element type, so that bytes of another one are read. Other
    results are compared with those of the same numbers in the types of the template, but where integers are divided.
    """
    results = run(client, template, fed, name)
    if results is None:
        return "refused", []
    outcome = ",".join(map(type_name, results))
    group = positions(fed)
    definition = client.protos.OperatorDef.FromString(template.definition)
    overwritten = {output: type_name(results[i]) for i, output in enumerate(definition.output)}
    if any(overwritten.get(definition.input[i], name) != name for i in group):
        return "undefined", results
    kind = template.inputs[group[0]].dtype if group else None
    together = all(i in group or value.dtype != kind for i, value in enumerate(template.inputs))
    if not group or (together and not outcome.startswith("float")):
        return outcome, results
    plain = [number_back(in_type(one, name), one.dtype) if i in group else one for i, one in enumerate(template.inputs)]
    wanted = run(client, template._replace(inputs=plain), "", "")
    return (outcome if wanted is not None and agree(results, wanted) else "undefined"), results


def number_back(given: Any, dtype: Any) -> Any:
    """Return what was fed as numbers of the template's element type; of text only the shape.

    >>> number_back(np.array([b"12"], object), np.dtype("float32"))
    array([12.], dtype=float32)
    """
    return np.full(given.shape, b"x", object) if dtype.kind == "S" else given.astype(dtype)


def agree(got: list[Any], wanted: list[Any]) -> bool:
    """Return whether results are the same numbers, to the rounding of half floats or integers; text is no number."""
    if "string" in map(type_name, [*got, *wanted]):
        return True
    return all(
        one.shape == wanted[i].shape
        and np.allclose(one, wanted[i], rtol=0.02, atol=1.0 if one.dtype.kind in "iu" else 0.02, equal_nan=True)
        for i, one in enumerate(got)
    )


def as_bytes(result: Any) -> bytes:
    """Return the elements of a result; each text with a zero behind it."""
    return (
        b"".join(bytes(one) + b"\0" for one in result.ravel())
        if type_name(result) == "string"
        else bytes(result.tobytes())
    )


# -- the parent --------------------------------------------------------------------------------------------------------


class Child:
    """A process that runs Caffe2 with one kind of memory; it is started anew when it dies."""

    def __init__(self, folder: Path, memory: str) -> None:
        self.command = [sys.executable, __file__, "--serve", memory, str(folder)]
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, question: list[str]) -> tuple[str, list[str]]:
        """Return outcome and results of a run; `crash` when the process ended or hangs."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):  # it died of the question before this one, after it had answered
            self.process.stdin.write((json.dumps(question) + "\n").encode())
        ready = select.select([self.process.stdout], [], [], SECONDS)[0]
        line = self.process.stdout.readline() if ready else b""
        if not line.endswith(b"\n"):
            self.close()
            return "crash", []
        outcome, results = json.loads(line)
        return outcome, results

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None


def record(folder: Path, operator: str, children: list[Child]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the outcomes of an operator by case, and results by key."""
    found: dict[str, Any] = {}
    results: dict[str, Any] = {}
    signatures: list[Any] = []
    for template in sorted(templates(folder, operator), key=lambda one: (one.size, one.case)):
        if any(value.dtype.kind == "S" and value.ndim == 0 for value in template.inputs):
            continue  # what Caffe2 shows for a blob that is no tensor
        table, kept = record_template(operator, template, children)
        seen = signature(template, table)
        if table and seen not in signatures:
            signatures.append(seen)
            found[template.case] = table
            results.update(kept)
    return found, results


def named(argument: str) -> bytes:
    """Return how the name of an argument stands in a serialized OperatorDef."""
    return b"\n" + bytes([len(argument)]) + argument.encode()


def signature(template: Template, table: dict[str, Any]) -> Any:
    """Return what tells a table from others, whatever the number of inputs of one kind."""
    rows: set[Any] = set()
    for fed, row in table.items():
        group = [] if fed in ARGUMENTS else [template.inputs[int(i)].dtype.name for i in fed.split(",")]
        kind = fed if fed in ARGUMENTS else ("alone" if len(group) == 1 else "together", *sorted(set(group)))
        rows.add((kind, tuple(sorted(row.items()))))
    return rows


def record_template(operator: str, template: Template, children: list[Child]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the outcomes of one template, and results by key."""
    table: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    fed = [label(group) for group in feeds(template.inputs)]
    for what in [*fed, *(name for name in ARGUMENTS if named(name) in template.definition)]:
        row: dict[str, str] = {}
        for name in NAMES:
            answers = [child.ask([operator, template.case, what, name]) for child in children]
            outcome, values = answers[0]
            if answers[1] != answers[0]:
                outcome = "crash" if "crash" in (outcome, answers[1][0]) else "undefined"
            if outcome == "refused":
                continue
            row[name] = outcome
            size = sum(map(len, values)) // 2
            if outcome not in ("crash", "undefined") and size <= KEPT_BYTES:
                packed = bytes.fromhex("".join(values))
                kept["/".join((operator, template.case, what, name))] = np.frombuffer(packed, np.uint8)
        table[what] = row
    return table, kept


def main() -> None:
    """Record the operators that are named, those that have runs but no line here (`new`), or all."""
    asked = sys.argv[1:]
    if asked[:1] == ["--serve"]:
        serve(Path(asked[2]), asked[1])
        return
    golden = DATA / "golden"
    every = sorted(path.stem for path in golden.glob("*.npz"))
    known, stored = before(every) if asked else ({}, {})
    operators = [name for name in every if name not in known] if asked == ["new"] else asked or every
    children = [Child(golden, memory) for memory in MEMORY]
    for operator in operators:
        known[operator], results = record(golden, operator, children)
        stored = {key: value for key, value in stored.items() if key.split("/")[0] != operator}
        stored.update(results)
        print(operator, *known[operator], flush=True)
    for child in children:
        child.close()
    write(known, stored)


def before(operators: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is recorded of these operators: outcomes by operator, and results by key."""
    outcomes = json.loads((DATA / "types.json").read_text())
    with np.load(str(DATA / "types.npz"), allow_pickle=False) as stored:
        names, sizes, every = stored["names"], stored["sizes"], stored["bytes"]
    parts = np.split(every, np.cumsum(sizes)[:-1])
    results = {str(name): parts[i] for i, name in enumerate(names) if str(name).split("/")[0] in operators}
    return {name: outcomes[name] for name in outcomes if name in operators}, results


def write(outcomes: dict[str, Any], stored: dict[str, Any]) -> None:
    """Write both files, sorted by operator."""
    lines = [f"{json.dumps(name)}: {json.dumps(outcomes[name], sort_keys=True)}" for name in sorted(outcomes)]
    (DATA / "types.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
    names = sorted(stored)
    sizes = np.array([len(stored[name]) for name in names], np.int64)
    every = np.concatenate([np.zeros(0, np.uint8), *(stored[name] for name in names)])
    np.savez_compressed(str(DATA / "types.npz"), names=np.array(names), sizes=sizes, bytes=every)


if __name__ == "__main__":
    main()
