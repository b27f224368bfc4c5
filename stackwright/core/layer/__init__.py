"""Layers of a user's own software on a finished image: what is asked for, what may be in them. Pure."""
