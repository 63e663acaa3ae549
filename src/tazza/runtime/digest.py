"""Digests: 32 bytes that tell contents and keys apart, by BLAKE2b.

`hashlib` loads OpenSSL, which takes longer (10 ms) than reading the kernels whose digests are wanted. CPython has
BLAKE2 in a module of its own.
"""

from __future__ import annotations

try:
    from _blake2 import blake2b
except ImportError:  # another Python
    from hashlib import blake2b

NBYTES = 32


def digest_of(*parts: bytes) -> bytes:
    """Return the digest of some bytes after each other.

    >>> digest_of(b"a", b"b") == digest_of(b"ab"), len(digest_of())
    (True, 32)
    """
    made = blake2b(digest_size=NBYTES)
    for part in parts:
        made.update(part)
    return made.digest()
