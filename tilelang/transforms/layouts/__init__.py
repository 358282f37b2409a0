"""Which thread holds which element: layouts of fragments, shared tiles and loops."""
