"""Hypothesis for the whole suite: the same examples in every run, and no clock (a timing is never asserted)."""

from hypothesis import settings

settings.register_profile("blockmix", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("search", deadline=None, max_examples=500)  # pytest --hypothesis-profile=search
settings.load_profile("blockmix")
