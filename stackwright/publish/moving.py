"""Move tags of many rows, so that a crash of the caller does not leave some of them behind.

A registry has no transactions: tags are set one after the other. What is to be moved is written to a journal
first, and a process of its own, which outlives the one that started it, goes through it. Where that process
dies as well, the next one continues the journal before anything else is done.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import TypeAdapter, ValidationError

from stackwright.core.errors import PublishError, StackwrightError
from stackwright.host.defects import internal_error
from stackwright.host.files import held, replace_durably
from stackwright.host.shipped import PACKAGE
from stackwright.publish.registry.client import Access, Manifest, Registry

JOURNAL, LOCK = "moving.json", ".moving.lock"
PROGRAM = "import stackwright.publish.moving as moving; moving.main()"
"""With -m, Python would warn that the module is there twice, in front of each error."""


Proxies = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """``before`` and ``after`` are digests; ``before`` is empty for a tag that was not there."""

    repository: str
    tag: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What is to be moved, and where. Its file holds no login and no proxy, which may have a password."""

    version: int = 1
    access: Access
    moves: tuple[Move, ...]


_ADAPTER = TypeAdapter(Journal)
WITHOUT: Any = {"access": {"proxies"}}


def move(journal: Journal, folder: Path, say: Callable[[str], None]) -> None:
    """All of them; or an error, and those that could be moved back are."""
    replace_durably(folder / JOURNAL, _ADAPTER.dump_json(journal, indent=2, exclude=WITHOUT))
    finish(folder, journal.access.proxies, say)


def finish(folder: Path, proxies: Proxies, say: Callable[[str], None]) -> None:
    """Do what a journal says, if there is one; wait for another process that does so.

    The proxies, which may have a password, go to the process by its standard input.
    """
    if not (folder / JOURNAL).exists():
        return
    # -P: no file of the working directory is imported as a module.
    argv = [sys.executable, "-P", "-c", PROGRAM, str(folder)]
    # A session of its own: neither Ctrl-C nor the end of its parent reaches it.
    with subprocess.Popen(
        argv, env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)}, start_new_session=True, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        assert child.stdin is not None and child.stderr is not None
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(json.dumps(proxies))
        messages = [_message(line, say) for line in child.stderr]
    if child.returncode:
        raise _error_of(messages, child.returncode)


def _message(line: str, say: Callable[[str], None]) -> dict[str, Any]:
    """Pass on the process's progress, and return the rest: its error, or Python's words."""
    try:
        message = json.loads(line)
    except ValueError:
        return {"printed": line.rstrip("\n")}
    if isinstance(message, dict) and "progress" in message:
        say(str(message["progress"]))
    return message if isinstance(message, dict) else {"printed": line.rstrip("\n")}


def _error_of(messages: Sequence[Mapping[str, Any]], code: int) -> PublishError:
    again = "publish again: what it left is done first"
    for message in messages:
        if "cause" in message:
            cause, place, hint = (str(message.get(name, "")) for name in ("cause", "place", "hint"))
            return PublishError(cause, place=place, hint=hint or again)
    printed = "\n".join(str(message["printed"]) for message in messages if "printed" in message)
    return PublishError(printed or f"the process that moves the tags was ended ({code})", hint=again)


# -- the process of its own ------------------------------------------------------------------------


def work(folder: Path, proxies: Proxies, say: Callable[[str], None]) -> None:
    """Do what the journal says, then remove it. One process at a time."""
    with held(folder / LOCK, lambda: say("another process moves the tags; waiting for it")):
        path = folder / JOURNAL
        if not path.exists():
            return
        journal = _read(path, proxies)
        registry = Registry(journal.access, say)
        moves, manifests = _current_tags(registry, journal, path)
        done: list[Move] = []
        try:
            for wanted, manifest in zip(moves, manifests, strict=True):
                registry.put_manifest(wanted.repository, wanted.tag, manifest)
                done.append(wanted)
        except PublishError as error:
            # Else the next process finishes it: half a set of today has to be noted.
            if not error.away and _back(registry, done, say):
                path.unlink()
            raise
        path.unlink()


def _current_tags(
    registry: Registry, journal: Journal, path: Path
) -> tuple[tuple[Move, ...], tuple[Manifest, ...]]:
    """Return what is left to be moved, with its manifests: everything is asked for before the first tag
    moves."""
    left: list[Move] = []
    manifests: list[Manifest] = []
    for wanted in journal.moves:
        now = registry.digest_of(wanted.repository, wanted.tag) or ""
        if now == wanted.after:
            continue
        place = f"{journal.access.host}/{wanted.repository}:{wanted.tag}"
        if now != wanted.before:
            hint = f"look at that tag; without {path} the others stay as they are now"
            raise PublishError("another process has moved this tag meanwhile", place=place, hint=hint)
        manifest = registry.manifest(wanted.repository, wanted.after)
        if manifest is None:
            hint = f"publish these rows again, without {path}"
            raise PublishError(f"{wanted.after} is not in the registry any more", place=place, hint=hint)
        left.append(wanted)
        manifests.append(manifest)
    return tuple(left), tuple(manifests)


def _back(registry: Registry, done: list[Move], say: Callable[[str], None]) -> bool:
    """Return whether all are.

    One that was not there before cannot be: a registry deletes images, not tags.
    """
    ahead = [moved for moved in reversed(done) if moved.before]
    for moved in tuple(ahead):
        with contextlib.suppress(PublishError):
            if before := registry.manifest(moved.repository, moved.before):
                registry.put_manifest(moved.repository, moved.tag, before)
                say(f"{moved.repository}:{moved.tag} was moved back")
                ahead.remove(moved)
    for moved in ahead:
        say(
            f"{moved.repository}:{moved.tag} could not be moved back; "
            "the next publish continues with the others"
        )
    return not ahead


def _read(path: Path, proxies: Proxies) -> Journal:
    try:
        journal = _ADAPTER.validate_json(path.read_bytes())
        return replace(journal, access=replace(journal.access, proxies=proxies))
    except ValidationError as error:
        hint = "look at the moving tags of the registry, remove the file, and publish again"
        cause = f"not a journal of tags: {error.errors(include_url=False)[0]['msg']}"
        raise PublishError(cause, place=str(path), hint=hint) from None


def main() -> None:
    def say(text: str) -> None:
        _send({"progress": text})

    try:
        proxies = tuple((name, value) for name, value in json.load(sys.stdin))
        work(Path(sys.argv[1]), proxies, say)
    except StackwrightError as error:
        _fail(error)
    except Exception as defect:
        _fail(internal_error(defect))


def _send(message: Mapping[str, str]) -> None:
    """Send a message, in one line, to the caller, which may have ended."""
    with contextlib.suppress(OSError):
        print(json.dumps(message), file=sys.stderr, flush=True)


def _fail(error: StackwrightError) -> NoReturn:
    _send({"cause": error.whole_cause, "place": error.place, "hint": error.hint})
    sys.exit(error.exit_code)
