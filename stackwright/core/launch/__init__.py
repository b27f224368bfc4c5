"""Command lines and manifests that start training."""
