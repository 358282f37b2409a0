"""What the passes have made, held against what it has to be."""
