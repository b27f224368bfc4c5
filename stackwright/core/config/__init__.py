"""The matrix as a person writes it: YAML, schema, expansion, `--set`."""
