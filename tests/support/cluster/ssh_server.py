"""An SSH server for the tests, started as `python ssh_server.py PORT FOLDER`: every user is a node.

FOLDER has the host's key, `authorized_keys`, and `nodes.json`: by user, what is in that node's environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncssh


def serve(folder: Path) -> Callable[[asyncssh.SSHServerProcess[bytes]], Awaitable[None]]:
    nodes: dict[str, dict[str, str]] = json.loads((folder / "nodes.json").read_text())

    async def run(process: asyncssh.SSHServerProcess[bytes]) -> None:
        """As sshd does: a shell runs the command, and what it started ends with the connection."""
        pipe = asyncio.subprocess.PIPE
        environment = {**os.environ, **nodes[process.get_extra_info("username")]}
        child = await asyncio.create_subprocess_shell(
            process.command or "true", stdin=pipe, stdout=pipe, stderr=pipe, env=environment,
            cwd="/", start_new_session=True,
        )  # fmt: skip
        try:
            await process.redirect(stdin=child.stdin, stdout=child.stdout, stderr=child.stderr)
            ended = asyncio.ensure_future(child.wait())
            closed = asyncio.ensure_future(process.channel.wait_closed())
            await asyncio.wait((ended, closed), return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                await process.stdout.drain()
                process.exit(ended.result())
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)

    return run


async def main(port: int, folder: Path) -> None:
    server = await asyncssh.listen(
        "127.0.0.1", port, server_host_keys=[str(folder / "host")], encoding=None,
        authorized_client_keys=str(folder / "authorized_keys"), process_factory=serve(folder),
    )  # fmt: skip
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))
