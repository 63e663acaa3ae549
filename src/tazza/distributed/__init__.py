"""Training on several processes and machines: communicators, data parallelism as a transform, watched ranks."""
