"""Files: atomic writes, values as arrays and JSON, saved models, checkpoints."""
