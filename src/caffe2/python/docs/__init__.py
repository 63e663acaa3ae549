"""What wrote pages about operators; `docs/operators.md` is the one of tazza."""
