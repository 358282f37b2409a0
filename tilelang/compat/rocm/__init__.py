"""Import path of what concerns AMD GPUs."""
