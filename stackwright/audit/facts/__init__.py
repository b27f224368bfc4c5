"""Read the rules' tables again from their primary sources, and compare: ``build.py facts``."""
