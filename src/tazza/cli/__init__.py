"""The `tazza` command. Nothing below this package is imported before the command that needs it runs."""

from __future__ import annotations


def main() -> None:
    """Run the command line of the process; errors of tazza end it with their message and status 1."""
    from tazza.cli.app import app

    app()
