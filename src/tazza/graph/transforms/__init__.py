"""One transform a file; found by walking this package."""
