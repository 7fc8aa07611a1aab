"""Choosing numbers of components and column groups: trials and their table."""
