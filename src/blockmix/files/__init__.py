"""Files: atomic writes, values as arrays and JSON, checkpoints."""
