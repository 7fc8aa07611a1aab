"""Choosing the numbers of components and column groups."""
