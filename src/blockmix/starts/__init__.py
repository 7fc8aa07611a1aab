"""Starts: where EM begins."""
