"""What every floor stands on: flags, logging, start-up, extension modules, thread count, files.

This floor knows nothing of tensors and operators. Where it lists things that upper floors bring (flags, init functions,
native kernels), it owns the registry and they fill it.
"""
