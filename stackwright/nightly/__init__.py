"""Every night: ask upstream, build what changed, prove it, publish what passed, say in the morning what was.

``inputs`` and ``morning`` compare, ``words`` writes: pure. ``upstream`` and ``tags`` ask, ``night`` works.
"""
