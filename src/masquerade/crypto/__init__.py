"""Primitives on numbers; they know nothing of tables."""
