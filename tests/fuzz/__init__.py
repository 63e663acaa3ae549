"""Fuzzing: nets, files and commands that nobody would write, by the hundred thousand.

    python -m tests.fuzz --nets 300000 --files 100000 --commands 5000        # `make fuzz`
    python -m tests.fuzz --minutes 120                                      # as long as one likes
    python -m tests.fuzz --replay tests/data/fuzz/found                     # what once found something

An input (`case.Case`) is a pure function of its kind, a seed and the corpus. Its outcome is right when it is a result
or a typed error. All else is a finding: another exception, a `KernelError` (a kernel that failed as it should not), a
warning, a signal, a hang, memory without measure, a file outside of the working folder, a thread that stays behind.

    kinds        what there is to draw, and what is done with it: nets, bytes, files, commands
    guard        judges one input in this process
    worker       a child process that tries one input after the other, watched by
    watch        the parent: it notices signals, hangs and memory, notes the finding, and goes on at the next input
"""
