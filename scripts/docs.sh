#!/usr/bin/env bash
# Build the documentation as a site below out/docs; what it needs comes from docs/site/requirements.txt, by hash.
#
#   scripts/docs.sh            the pages of this checkout in out/docs/html; a warning is an error, a dead link too
#   scripts/docs.sh links      asks every external address of the pages
#   scripts/docs.sh versions   this checkout as `main` and each tag v*, in out/docs/published
set -euo pipefail
cd "$(dirname "$0")/.."

here=$PWD/out/docs
environment=$here/venv
wanted=$(sha256sum < docs/site/requirements.txt)
if [ "$(cat "$environment/requirements.sha256" 2>/dev/null)" != "$wanted" ]; then
    echo "docs: making $environment"
    rm -rf "$environment"
    .venv/bin/python -m venv "$environment"
    "$environment/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
        -r docs/site/requirements.txt
    echo "$wanted" > "$environment/requirements.sha256"
fi

build() { # SOURCE TARGET [OPTION...]
    local source=$1 target=$2
    shift 2
    rm -rf "$target"
    "$environment/bin/sphinx-build" --fail-on-warning --keep-going --quiet --jobs auto \
        -d "$target.doctrees" -c "$source/docs/site" "$@" "$source" "$target"
}

versions() {
    local tag tags=() source=$here/source
    for tag in $(git tag --list 'v*' --sort=-version:refname); do
        # A tag that is older than the site has no pages to build.
        if git cat-file -e "$tag:docs/site/conf.py" 2>/dev/null; then tags+=("$tag"); fi
    done
    export STACKWRIGHT_DOCS_VERSIONS="main ${tags[*]}"
    rm -rf "$here/published"
    STACKWRIGHT_DOCS_VERSION=main build . "$here/published/main"
    for tag in "${tags[@]}"; do
        rm -rf "$source"
        mkdir -p "$source"
        git archive "$tag" | tar -x -C "$source"
        STACKWRIGHT_DOCS_VERSION=$tag build "$source" "$here/published/$tag"
    done
    rm -rf "$source" "$here"/published/*.doctrees
    tag=${tags[0]:-main} # the newest
    sed "s|url=docs|url=$tag/docs|; s|href=\"docs|href=\"$tag/docs|" docs/site/front/index.html > "$here/published/index.html"
    echo "docs: $here/published/index.html"
}

case ${1:-} in
    "") build . "$here/html" && echo "docs: $here/html/index.html" ;;
    links) build . "$here/links" --builder linkcheck && echo "docs: every external link answers" ;;
    versions) versions ;;
    *) echo "docs: there is no '$1'; write links, versions, or nothing" >&2; exit 2 ;;
esac
