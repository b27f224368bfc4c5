"""What is worth another try, of programs that only say so in words."""

from __future__ import annotations

import re

PASSING = re.compile(
    r"connection (refused|reset|timed out)|broken pipe|\bEOF\b|i/o timeout|TLS handshake timeout"
    r"|deadline exceeded|no route to host|network is unreachable|server misbehaving"
    r"|temporary failure in name resolution|server closed idle connection"
    r"|response status code (408|425|429|5\d\d)",
    re.IGNORECASE,
)
"""Go's words for a registry, a network or a name server that may be back: of oras and of Docker's engine."""
