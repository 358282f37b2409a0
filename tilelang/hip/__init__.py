"""HIP: the back end for AMD's GPUs."""
