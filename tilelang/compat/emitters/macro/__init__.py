"""Emitters of products, instruction by instruction."""
