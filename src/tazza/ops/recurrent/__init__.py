"""Operators: recurrent nets, and what their steps compute."""
