"""Passes that every target starts with."""
