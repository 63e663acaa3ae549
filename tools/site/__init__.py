"""The project's site: pages of `docs`, references made from the code, and the navigation over all of them."""
