"""What chose Intel's library for nets; tazza's plans choose it by themselves."""
