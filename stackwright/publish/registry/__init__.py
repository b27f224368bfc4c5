"""Talk to a registry."""
