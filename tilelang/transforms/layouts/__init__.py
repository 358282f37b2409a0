"""Layout inference: the layouts of fragments, shared tiles and parallel loops."""
