"""One module for each runtime. Each has `start(job)`, which returns a `benchmarks.job.Session`.

A worker process imports exactly one of them, and what that import costs is counted as the import of the runtime.
"""
