"""Compare drawn problems with the genuine Caffe2: the same inputs, the same operator, side by side.

    python -m tools.beside_caffe2 PYTHON_OF_CAFFE2 [--seeds 20] [--extreme | --wild | --arguments] [TYPE...]

Problems are those that the judge draws (`tests/judge`), and those of the operators that their gradients emit, for all
types by default; results of ours are those of the reference kernels. A line tells each type that does not agree:
`differs` with what draws it again, `refused` what Caffe2 refused and we take, `crash` what ended its process. What
draws random numbers, and bytes with several scales, are left out. `docs/differences.md` tells which of these are meant.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""Of the other Python: our own package `caffe2` is not to be found there."""
SECONDS = 20
"""How long a run may take there."""
KINDS = {
    "extreme": "arguments at the edges of their ranges",
    "wild": "numbers that are infinite, huge, tiny or NaN among the others",
    "arguments": "one argument by its declaration alone",
}
NEAR = 2e-4
"""Relative to the element, and to the largest one."""


def serve() -> None:
    """Answer questions, each a file of a problem, on the Python that has Caffe2: `ok`, or what it says."""
    import logging

    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries of its own print there
    from caffe2.proto import caffe2_pb2
    from caffe2.python import core, workspace

    for line in sys.stdin:
        path = line.strip()
        with np.load(path, allow_pickle=False) as stored:
            problem = {key: stored[key] for key in stored.files}
        definition = caffe2_pb2.OperatorDef.FromString(problem["op"].tobytes())
        workspace.ResetWorkspace()
        for name in dict.fromkeys(definition.input):
            value, meaning = problem[f"in/{name}"], problem.get(f"meaning/{name}")
            if meaning is None:
                workspace.FeedBlob(name, value.astype(object) if value.dtype.kind == "S" else value)
            else:
                workspace.RunOperatorOnce(filled(core, name, value, meaning.tolist()))
        try:
            workspace.RunOperatorOnce(definition)
            results: dict[str, Any] = {}
            for name in definition.output:
                value = fetched(workspace, name)
                results[f"out/{name}"] = np.array(value, "S") if value.dtype == object else value
            np.savez(path, **results)
            told = "ok"
        except Exception as error:
            told = (str(error).strip() or type(error).__name__).splitlines()[0]
        answers.write(json.dumps(told) + "\n")
        answers.flush()


def filled(core: Any, name: str, value: Any, meaning: list[float]) -> Any:
    """Return the operator that makes a blob of whole numbers with a scale and a zero point: none can be fed."""
    scale, zero = meaning
    octets = value.dtype == np.uint8
    kind, values = ("", value.tobytes()) if octets else ("Int", value.ravel().tolist())
    own = {"values": values, "shape": list(value.shape), "Y_scale": scale, "Y_zero_point": int(zero)}
    return core.CreateOperator(f"Int8Given{kind}TensorFill", [], [name], **own)


def fetched(workspace: Any, name: str) -> Any:
    """Return a blob as an array; of whole numbers with a scale the numbers."""
    try:
        return np.array(workspace.FetchBlob(name))
    except TypeError:  # what FetchBlob says of these
        return np.array(workspace.FetchInt8Blob(name).data)


class Child:
    """The genuine Caffe2 in a process of its own, started anew when it dies."""

    def __init__(self, python: str) -> None:
        """Start when it is asked."""
        self.command = [python, __file__, "--serve"]
        self.process: subprocess.Popen[bytes] | None = None

    def ask(self, path: Path) -> str:
        """Return `ok`, `crash`, or why it refused."""
        if self.process is None:
            self.process = subprocess.Popen(
                self.command,
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{path}\n".encode())
        ready = select.select([self.process.stdout], [], [], SECONDS)[0]
        line = self.process.stdout.readline() if ready else b""
        if line.endswith(b"\n"):
            return json.loads(line)
        self.close()
        return "crash"

    def close(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = None


def as_stored(value: Any) -> Any:
    """Return an input as a file holds it: text with dtype S."""
    return np.array(value, "S") if value.dtype.kind in "OTU" else value


def unlike(ours: Any, theirs: Any, steps: int) -> str | None:
    """Return how two results differ, None where they agree; whole numbers with a scale may be some steps apart."""
    if ours.shape != theirs.shape:
        return f"the shape {ours.shape}, theirs is {theirs.shape}"
    if ours.dtype.kind in "OST":
        return None if as_stored(ours).tolist() == theirs.tolist() else "other text"
    if ours.dtype != theirs.dtype:
        return f"{ours.dtype}, theirs is {theirs.dtype}"
    if ours.dtype.kind != "f":
        apart = int(np.abs(ours.astype(np.int64) - theirs.astype(np.int64)).max(initial=0))
        return None if apart <= steps else f"whole numbers, up to {apart} apart"
    one, two = (x.astype(np.float64) for x in (ours, theirs))
    near = NEAR if ours.dtype.itemsize > 2 else 4e-3
    largest = float(np.abs(two[np.isfinite(two)]).max(initial=0))
    if np.allclose(one, two, rtol=near, atol=near * largest, equal_nan=True):
        return None
    with np.errstate(all="ignore"):
        return f"up to {np.nanmax(np.abs(one - two)):.3g} apart, {largest:.3g} large"


def drawn(type: str, seed: int, kind: str) -> Iterator[tuple[str, Any]]:
    """Yield what draws a problem again, and the problem; then those of its gradient."""
    from tazza.errors import TazzaError
    from tests.judge.draw import CannotDraw, compute, draw, gradients
    from tests.judge.layers import further

    with suppress(CannotDraw, TazzaError):
        if kind == "arguments":
            found = further(type, seed)
        else:
            found = draw(type, seed, wild=kind == "wild", extreme=kind == "extreme")
        yield str(found), found
        for number, one in enumerate(gradients(found, compute(found))):
            yield f"gradients({found})[{number}]", one


def judged(child: Child, again: str, problem: Any, folder: Path) -> tuple[str, str]:
    """Return how a problem comes out, in a word and in a sentence."""
    from tazza.errors import TazzaError
    from tazza.tensor import PerTensor
    from tests.judge.draw import compute
    from tests.judge.meaning import steps_of

    try:
        ours = compute(problem, times=4)
    except TazzaError:
        return "not drawn", ""
    path = folder / "problem.npz"
    stored = {f"in/{name}": as_stored(value) for name, value in problem.inputs.items()}
    for name, meaning in problem.meanings.items():
        if not isinstance(meaning, PerTensor):  # there no operator makes one with several scales
            return "not drawn", ""
        stored[f"meaning/{name}"] = np.array([meaning.scale, meaning.zero_point])
    np.savez(path, op=np.frombuffer(problem.definition.SerializeToString(), np.uint8), **stored)
    answer = child.ask(path)
    if answer != "ok":
        return ("crash" if answer == "crash" else "refused"), f"{again}: {answer}"
    with np.load(path, allow_pickle=False) as found:
        steps = steps_of(problem.schema)
        told = [(name, unlike(np.asarray(value), found[f"out/{name}"], steps)) for name, value in ours.items()]
    wrong = [f"{name} is {text}" for name, text in told if text is not None]
    return ("differs", f"{again}: {'; '.join(wrong)}") if wrong else ("agrees", "")


def types_of(python: str, asked: list[str]) -> Iterator[str]:
    """Yield the types that both have and that draw no random numbers."""
    from tazza.operator import SCHEMAS, Effects
    from tests.judge.draw import drawable

    listing = "from caffe2.python import workspace; print(*workspace.RegisteredOperators())"
    done = subprocess.run([python, "-c", listing], capture_output=True, text=True, check=True, env=ENVIRONMENT)
    known = set(done.stdout.split())
    for type in drawable():
        if type in known and SCHEMAS[type].effects is Effects.PURE and (not asked or type in asked):
            yield type


def main() -> None:
    """Compare, and tell what does not agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", help="with the genuine Caffe2")
    parser.add_argument("types", nargs="*", help="all by default")
    parser.add_argument("--seeds", type=int, default=20, help="problems of each type")
    kinds = parser.add_mutually_exclusive_group()
    for name, text in KINDS.items():
        kinds.add_argument(f"--{name}", dest="kind", action="store_const", const=name, default="", help=text)
    given = parser.parse_intermixed_args()
    child, counts = Child(given.python), Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        for type in types_of(given.python, given.types):
            problems = [one for seed in range(given.seeds) for one in drawn(type, seed, given.kind)]
            found = [judged(child, *one, Path(folder)) for one in problems]
            own = Counter(word for word, _ in found)
            counts += own
            for word in ("differs", "refused", "crash"):
                if own[word]:
                    example = next(text for one, text in found if one == word)
                    print(f"{type}: {word} {own[word]} of {len(found)}, such as {example}", flush=True)
    child.close()
    print(dict(counts))


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    else:
        main()
