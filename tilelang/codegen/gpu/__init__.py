"""GPU source: one writer, and a table for each dialect that it prints."""
