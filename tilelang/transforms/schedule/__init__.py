"""Scheduling: pipelines, warp specialization, persistent kernels, and the search among them."""
