"""The engine `native/channels_last`: normalization where channels lie innermost, in as few passes as it takes.

Libraries read a batch twice for its mean and its variance, and once more to normalize it; the rectifier, sum or mask
beside it is another pass. Here it is read once for both, and the pass that writes does the rest (see `code`).
"""

from __future__ import annotations

from pathlib import Path

from tazza.codegen.kernel import Sources, unavailable
from tazza.operator import engine

SOURCES = Sources(Path(__file__).parent)
CHANNELS_LAST = engine(
    "native/channels_last",
    "batch normalization where channels lie innermost, compiled",
    priority=24,
    unavailable=unavailable,
    version=SOURCES.version,
    selective=True,
)
