"""Which troubles with another's server pass, so that asking again may help."""

from __future__ import annotations

import socket

ANSWERS = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Of a server, or of what stands before it, that another time may be others."""

NO_SUCH_NAME = frozenset({socket.EAI_NONAME, socket.EAI_NODATA})
"""Of a name server that knows. Any other error is of one that could not tell just now."""
