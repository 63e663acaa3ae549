"""Speed and memory of tazza beside other runtimes; `make bench` runs `benchmarks.bench`."""
