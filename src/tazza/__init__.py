"""tazza."""
