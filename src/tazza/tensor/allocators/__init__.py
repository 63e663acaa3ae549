"""Policies of handing out memory, one a module: its name is that of the allocator in `ALLOCATORS`."""
