#!/usr/bin/env bash
# Logs Docker in to the site's registry, for a job of CI. The password goes through stdin into Docker's own
# configuration, from which every command of ours takes it. Where no user is named, nothing is done.
#
#   STACKWRIGHT_REGISTRY            HOST[:PORT]/REPOSITORY
#   STACKWRIGHT_REGISTRY_USER       an account that may push there
#   STACKWRIGHT_REGISTRY_PASSWORD   its password or token
set -euo pipefail

if [[ -z ${STACKWRIGHT_REGISTRY_USER:-} ]]; then
    echo "registry-login: STACKWRIGHT_REGISTRY_USER is empty: no login"
    exit 0
fi
: "${STACKWRIGHT_REGISTRY:?is empty}" "${STACKWRIGHT_REGISTRY_PASSWORD:?is empty}"
host=${STACKWRIGHT_REGISTRY%%/*}
printf '%s' "$STACKWRIGHT_REGISTRY_PASSWORD" |
    docker login --username "$STACKWRIGHT_REGISTRY_USER" --password-stdin "$host" >/dev/null
echo "registry-login: logged in to $host"
