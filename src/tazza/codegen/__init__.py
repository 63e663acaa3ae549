"""How kernels of our own are written: terms that become LLVM IR, and the machine code that comes of it.

Engines write kernels by these means; nothing here knows of one. A kernel is a function over an argument block (`block`)
whose work is divided among threads (`loop`). What it computes is written in terms (`term`), most of them vectors
(`vector`), of formulas by `function` and `typed_function`; above all this, expressions and programs know nothing of the
processor. `docs/kernels.md` writes one from the start.
"""
