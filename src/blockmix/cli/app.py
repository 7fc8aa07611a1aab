"""The application with all its commands, in the order of the help."""

from blockmix.cli import fit_commands, model_commands
from blockmix.cli.application import app

__all__ = ["app", "fit_commands", "model_commands"]
