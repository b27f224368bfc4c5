"""Docker's login for a registry: of its configuration, or of the credential helper that it names."""

from __future__ import annotations

import warnings

from docker import auth as docker_auth
from docker.errors import DockerException

from stackwright.core.errors import PublishError


def of(host: str) -> dict[str, str]:
    """``username``, ``password``, ``identitytoken``: what there is. PublishError where it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a helper that is missing is an error below
            found = docker_auth.load_config().resolve_authconfig(host)
    except (DockerException, ValueError, KeyError, TypeError, AttributeError) as error:
        cause = f"the login could not be read: {error.__context__ or error}"
        place = f"Docker's configuration for {host}"
        raise PublishError(cause, place=place, hint="docker login, or fix the credential helper") from None
    return {name.lower(): str(text) for name, text in (found or {}).items() if text}
