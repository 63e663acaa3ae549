"""The flag `batch_invariant`: results of an image that do not depend on the others of its batch, to the last bit."""

from tazza.runtime.flags import flag

BATCH_INVARIANT = flag(
    "batch_invariant",
    False,
    "compute each image of a batch to the same bits whatever the others are, and however many",
    kernels=True,
)
