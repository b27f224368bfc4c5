"""What the probe of attacks finds where every one of them fails."""

from __future__ import annotations

from typing import Any

from stackwright.core.components.horovod.attack import (
    FORGED,
    JOB_ATTACKS,
    JOBS,
    LOOPBACK,
    SERVERS,
    SERVICES,
    UNSIGNED,
)

SERVED = {"value": "right", "error": None}
NOT_EXECUTED = {"status": 403, "executed": False}


def server() -> dict[str, Any]:
    return {
        "listens": list(LOOPBACK), "served": dict(SERVED), "kept": "right",
        "forged": dict.fromkeys(UNSIGNED + FORGED, 403),
        "replayed": {"first": 200, "replayed": 403, "held back": 403},
        "oversized": {"signed": 413, "unsigned": 403},
        "strange": {"files": 501, "negative length": 400, "long path": 400},
    }  # fmt: skip


def service() -> dict[str, Any]:
    closed = {"answer": 0, "executed": False}
    attacks = {
        "other key": dict(closed), "signed pickle": dict(closed), "other key, too long": {"answer": 0},
        "replayed": {"answer": 0, "recorded": 104},
    }  # fmt: skip
    return {"listens": list(LOOPBACK), "served": {"value": True, "error": None}, "attacks": attacks}


def job() -> dict[str, Any]:
    return {
        "address": "127.0.0.1", "listens": list(LOOPBACK), "has key": True, "key in command lines": [],
        "served": dict(SERVED), "attacks": dict.fromkeys(JOB_ATTACKS, 403), "code": 0, "logged": 3,
    }  # fmt: skip


def attack() -> dict[str, Any]:
    servers = {name: server() for name in SERVERS}
    strangers = {name: dict(NOT_EXECUTED) for name in ("unsigned", "other key")}
    servers["key-value"]["pickles"] = {**strangers, "imposter": {"status": None, "executed": False}}
    servers["elastic"] |= {
        "pickles": {
            **{name: dict(found) for name, found in strangers.items()},
            "signed": {"status": 400, "executed": False},
        },
        "registered": [],
        "joined": {"error": None, "registered": [["node", 0]], "told": [1], "listens": list(LOOPBACK)},
    }
    servers["elastic"]["forged"]["unsigned rank"] = 403
    return {
        "servers": servers,
        "services": {name: service() for name in SERVICES},
        "jobs": {name: job() for name in JOBS},
    }
