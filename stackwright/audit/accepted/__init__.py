"""Tests of the promise that an accepted row works: every accepted combination locks, and what it locks is
installed, imported and compiled. Run by ``make accepted`` and every night; it needs an index, not an engine.
"""
