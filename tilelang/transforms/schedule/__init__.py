"""Order of work: which copies run ahead of the computation that needs them."""
