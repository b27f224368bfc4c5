"""The documents that are signed: provenance, SBOM, VEX, in-toto."""
