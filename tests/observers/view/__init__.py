"""What the package that shows nets does, file for file."""
