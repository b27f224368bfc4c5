#!/usr/bin/env bash
# See to it that a browser and its driver are there, for `make page`: Chromium, or Chrome. Prints nothing where
# they are. Installs Debian's where they are not; exit 6 where that cannot be done.
set -euo pipefail

browser=$(command -v chromium google-chrome chromium-browser | head -n1 || true)
if [ -n "$browser" ] && command -v chromedriver >/dev/null; then
    exit 0
fi

as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
if ! command -v apt-get >/dev/null || { [ -n "$as_root" ] && ! command -v sudo >/dev/null; }; then
    echo "browser: there is no Chromium with chromedriver, and this script cannot install one here" >&2
    echo "  next: install both with this host's own tools; the page is not checked until then" >&2
    exit 6
fi
echo "browser: installing chromium, chromium-driver and fonts-dejavu-core with apt-get"
$as_root apt-get update -qq
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    chromium chromium-driver fonts-dejavu-core >/dev/null || {
    echo "browser: the packages could not be installed; the page is not checked" >&2
    echo "  next: install Chromium and chromedriver by hand" >&2
    exit 6
}
