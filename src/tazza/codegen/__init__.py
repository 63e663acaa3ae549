"""How kernels of our own are written: LLVM IR as text, and the machine code that comes of it.

Engines write kernels by these means; nothing here knows of one. A kernel is a function over an argument block (`block`)
whose work is divided among threads (`loop`). What it computes is written in vectors (`emit`, `typed`), of formulas by
`vector`; above all this, expressions and programs know nothing of the processor.
"""
