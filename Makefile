# `make run`: everything, from nothing.  `make test`: the tests, from nothing.
.PHONY: run matrix test page thorough env engine faults bundle frameworks fabrics hpc nodes pythons rootless rootless-run unprivileged accepted gpu gpu-compile lock-tools docs docs-links docs-versions

PYTHON := .venv/bin/python

run: env engine
	./build.py run

# Every row of the matrix: hours and much disk from nothing.
matrix: env engine
	./build.py run '*'

# Files go to the workers in this order: those of an engine take minutes each, those of tests/unit seconds, so
# that the workers end together. By default those with the fewest tests come last, and they are the longest.
test: env engine
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	$(PYTHON) -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests/engine tests/patches tests/unit tests/golden

# The page of the reports in a real browser, by an accessibility checker. Apart from `make test`, since it needs
# Chromium, which is installed where it is not: half a minute without that.
page: env
	@scripts/browser.sh
	$(PYTHON) -m pytest tests/browser

# The tests that only .ci/run runs (`long`), and those that say more of what is proven already (`nightly`): each
# fault in an image of its own, all points of a kill, all combinations. The workflow `facts` runs it every night.
thorough: env engine
	-@scripts/emulation.sh # without it the test of the emulator is left out, and says so
	$(PYTHON) -m pytest -n 2 --dist loadfile tests/engine tests/unit -m 'long or nightly'

env:
	@scripts/env.sh

engine:
	@scripts/engine.sh

# Faults planted in the real image and in its SIF, with those that .ci/run leaves out; needs an image that
# `make run` built.
faults: env engine
	$(PYTHON) -m pytest tests/e2e -m ''

# The row with every framework of CUDA 12: built and proven, on two nodes, and under Slurm. Half an hour.
frameworks: env engine
	./build.py run cuda12-all
	STACKWRIGHT_ROW=cuda12-all $(PYTHON) -m pytest tests/e2e/test_two_nodes.py tests/e2e/test_scaling.py \
		tests/hpc/test_rows.py

# The row with libfabric and NCCL's plugin for it, whose source is fetched, or lies in STACKWRIGHT_SOURCES: built,
# proven, and on two nodes. A quarter of an hour.
fabrics: env engine
	./build.py --matrix matrix.fabrics.yaml run
	STACKWRIGHT_MATRIX=matrix.fabrics.yaml $(PYTHON) -m pytest tests/e2e/test_two_nodes.py

# A bundle of the default row (STACKWRIGHT_ROW names another), and its build by a second engine in a network
# without a route: the same layers. Two whole builds, 50 GB of disk, and root; STACKWRIGHT_BUNDLES names
# another folder than out/bundles for it.
bundle: env engine
	$(PYTHON) -m pytest -m nightly tests/e2e/test_bundle_real.py

# Slurm and Apptainer in two containers as nodes; the rows whose SIF `make run` left train in it.
hpc: env engine
	$(PYTHON) -m pytest tests/hpc

# Two engines as two nodes, a registry between them, Dask and Slurm; workers are killed.
nodes: env engine
	$(PYTHON) -m pytest tests/nodes

# The wheel, installed with Python 3.11 to 3.14 on bare hosts of Debian and Ubuntu; needs root. Ubuntu's has to
# be found by STACKWRIGHT_UBUNTU_MIRROR.
pythons: env
	tests/e2e/pythons.sh

# Small rows by Podman without root, as an ordinary user: root makes one, and gives it what root alone can give.
# Not in .ci/run, whose time is spent: every night it runs on a bare host (tests/e2e/bare_host.sh make rootless).
rootless: env
	tests/e2e/as_user.sh $(PYTHON) -m pytest tests/engine/test_rows_without_root.py -m rootless

# The default row in the same way, as `make run` does with the engine of root.
rootless-run: env
	tests/e2e/as_user.sh ./build.py run

# Small rows by buildah in containers without privileges, as a Kubernetes job is one: as root, as a user, without
# a volume, where containers start, and where nothing can be built. Needs Docker; not in .ci/run, for the time
# that it takes, six minutes.
unprivileged: env
	for place in root user copies unmasked; do tests/e2e/unprivileged.sh $$place $(PYTHON) -m pytest \
		tests/engine/test_rows_without_privileges.py -m unprivileged || exit; done
	tests/e2e/unprivileged.sh default true; test $$? = 6

# Every accepted combination locks, imports and compiles: hours and much disk the first time, and later what
# changed. Answers are kept below out/accepted; `python -m stackwright.audit.accepted --help` says what else it does.
accepted: env
	$(PYTHON) -m stackwright.audit.accepted --every --minutes 300 --report out/accepted/accepted.md

# Horovod, NCCL and PyTorch on the GPUs of this host: in the images of rows where an engine gives them a GPU, else
# compiled against the PyTorch of GPU_PYTHON. Without a GPU it says in a line what is missing, and ends with 19.
GPU_PYTHON := python3
gpu:
	@$(GPU_PYTHON) bench/gpu/start.py $(GPU_OPTIONS)

# What `make gpu` compiles, on a host without a GPU: PyTorch of a row with CUDA 13 and its compiler from the index,
# Horovod for an architecture, ranks on the CPU. Gigabytes of wheels, 8 GB of disk and a quarter of an hour.
gpu-compile: env
	$(PYTHON) -m pytest tests/gpu

# Moves the pins of the tools themselves; the diff of requirements.txt is what a reviewer reads.
lock-tools: env
	.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-emit-index-url --upgrade --custom-compile-command "make lock-tools" \
		pyproject.toml --extra cluster --group dev --output-file requirements.txt
	.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
		--no-emit-index-url --upgrade --custom-compile-command "make lock-tools" \
		--group docs --output-file docs/site/requirements.txt

# The documentation as a site, in out/docs: a warning or a dead link inside it is an error. Addresses of others are
# asked by `docs-links`; `docs-versions` has each tag as well, as it is published.
docs: env
	@scripts/docs.sh
	$(PYTHON) -m pytest -q tests/site

docs-links: env
	@scripts/docs.sh links

docs-versions: env
	@scripts/docs.sh versions
