"""Normalization: the first passes of every target."""
