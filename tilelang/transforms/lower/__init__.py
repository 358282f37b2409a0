"""Tile operations and parallel loops to what each thread of a GPU does."""
