"""Tables of operators, named after the folders of `tazza.ops`."""
