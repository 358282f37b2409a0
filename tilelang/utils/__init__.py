"""Helpers that programs import by these paths."""
