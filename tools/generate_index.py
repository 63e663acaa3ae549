"""Write the indexes anew: operators, kernels, engines, transforms, flags, names of the tensor library: `make index`."""

from __future__ import annotations

from tazza.tensor.names import NAMES, PACKAGES, PATH, dump, dump_stub, generate, stub_path


def main() -> None:
    """Import everything, then write: the names of tensors first, since operators and kernels look for them."""
    found = generate()
    PATH.write_text(dump(found))
    for package in PACKAGES:
        stub_path(package).write_text(dump_stub(found[NAMES]))

    from tazza.operator import index

    index.PATH.write_text(index.dump(index.generate()))

    from tazza.graph import transform_index

    transform_index.PATH.write_text(transform_index.dump(transform_index.generate()))

    from tazza.runtime import flag_index

    flag_index.PATH.write_text(flag_index.dump(flag_index.generate()))


if __name__ == "__main__":
    main()
