"""Whenever a signal comes, a command ends with one word and the status that shells have for it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AT_IMPORT = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may have it ignored

class Finder:
    left = {count}
    def find_spec(self, name, path, target=None):
        Finder.left -= 1
        if Finder.left == 0:
            os.kill(os.getpid(), {number})

from tazza.cli import main
sys.meta_path.insert(0, Finder())
sys.argv = ["tazza", *{words!r}]
main()
"""
WITHIN_A_KERNEL = """
import ctypes, os, signal, sys, threading, time
from tazza.cli.interruption import end_at_second_signal

end_at_second_signal()
signal.signal({number}, signal.default_int_handler)
def ask():
    for _ in range(2):
        time.sleep(0.3)
        os.kill(os.getpid(), {number})
threading.Thread(target=ask, daemon=True).start()
libc = ctypes.CDLL(None)
end = time.monotonic() + 60
libc.sigfillset.restype = None
while time.monotonic() < end:  # one call that hears of nothing, as that of a kernel: signals go to other threads
    signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGINT, signal.SIGTERM}})
    libc.sleep(60)
"""
NET = ROOT / "tests" / "data" / "interop" / "lenet_mnist" / "predict_net.pb"


def ended(program: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, cwd=ROOT, check=False
    )


def ends_in_order(count: int, number: signal.Signals, *words: str) -> bool:
    """Whether a command that gets a signal at its import of that number ends as it should; False: it has no such."""
    done = ended(AT_IMPORT.format(count=count, number=int(number), words=words))
    if done.returncode == 0:
        return False
    assert (done.returncode, done.stderr) == (128 + number, "interrupted\n"), done.stderr[-2000:]
    return True


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_command_starts(number: signal.Signals) -> None:
    assert ends_in_order(3, number, "doctor")
    assert ends_in_order(60, number, "doctor")


@pytest.mark.slow
def test_a_signal_at_any_import_of_a_command() -> None:
    assert NET.exists()
    reached = 0
    for count in (1, 8, 30, 100, 200, 320, 450, 600, 800, 1000):
        number = (signal.SIGINT, signal.SIGTERM)[reached % 2]
        reached += ends_in_order(count, number, "show", str(NET))
    assert reached >= 6


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_what_hears_of_none(number: signal.Signals) -> None:
    done = ended(WITHIN_A_KERNEL.format(number=int(number)))
    assert (done.returncode, done.stderr) == (128 + number, "interrupted: ended within a kernel\n")
