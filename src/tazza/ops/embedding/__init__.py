"""Operators: tables of embeddings whose rows are kept in few bits."""
