# Holdfast needs Python 3.11 and pip; the rest it gets itself. `make PYTHON=python3.12 ...` names another interpreter.
PYTHON ?= python3
GROUPS ?= base,mockgcp,trainer,ray,dev
ARGS ?=
BIN := .venv/bin
# The tests of a module share what is dear to start, and one worker.
PYTEST := $(BIN)/pytest -n 2 --dist loadscope --no-loadscope-reorder
ENGINE := $(BIN)/python -m holdfast.engine
COMPILE := $(BIN)/uv pip compile --universal --generate-hashes --no-header --no-annotate -q --python-version 3.11
LOCKS := requirements

.DEFAULT_GOAL := help
.PHONY: help env engine planes rehearse rehearse-gke rehearse-slurm test test-engine image-test lint format lock doctor bench clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env:  ## .venv from requirements/*.lock (GROUPS=base,mockgcp for less)
	@$(PYTHON) holdfast/bootstrap.py --groups $(GROUPS)

engine: env  ## the Pulumi CLI: from PATH, else our cache, else built (4-8 minutes, once)
	@$(ENGINE) ensure

planes: env  ## the programs of the Kubernetes plane, built from Go modules (about 12 minutes, once), and Debian's Slurm
	@$(BIN)/python -m holdfast.planes ensure

rehearse: engine  ## scenario A from `up` to `destroy` on the emulated cloud (ARGS="--seed 7 --preemptions 3")
	@$(BIN)/holdfast rehearse cloud-run $(ARGS)

rehearse-gke: engine planes  ## scenario B, on real Kubernetes with Kueue (root)
	@$(BIN)/holdfast rehearse gke-tpu $(ARGS)

rehearse-slurm: engine planes  ## scenario C, on real Slurm (root)
	@$(BIN)/holdfast rehearse slurm $(ARGS)

test: env  ## all tests; those of the engine only when it is there already
	@$(BIN)/python -m holdfast.planes find || \
	  echo 'Not proved here: the tests on real Kubernetes with Kueue, and on real Slurm. To run them too: make planes'
	@if $(ENGINE) find; then $(PYTEST) $(ARGS); else \
	  echo 'Not proved here: the tests that run the real Pulumi engine. To run them too: make test-engine'; \
	  $(PYTEST) -m 'not engine' $(ARGS); fi

test-engine: engine  ## all tests, with the real engine, which it brings first
	@$(PYTEST) $(ARGS)

# Beside `make test`, for it needs root, buildah, debootstrap and some minutes: apt-get install buildah debootstrap
image-test: env  ## the trainer's image built and run for real on this machine (root, buildah, debootstrap)
	@$(BIN)/pytest -n 0 -m container -rs tests/containers $(ARGS)

lint: env  ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: env  ## ruff, changing files
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

# The order matters: each lock is held to the versions of those before it.
lock: env  ## requirements/*.lock anew, from pyproject.toml
	$(COMPILE) --group bootstrap -o $(LOCKS)/bootstrap.lock
	$(COMPILE) pyproject.toml -c $(LOCKS)/bootstrap.lock -o $(LOCKS)/base.lock
	$(COMPILE) --group mockgcp -c $(LOCKS)/base.lock -o $(LOCKS)/mockgcp.lock
	$(COMPILE) --group trainer -c $(LOCKS)/base.lock -c $(LOCKS)/mockgcp.lock -o $(LOCKS)/trainer.lock
	$(COMPILE) --group trainer-gpu -c $(LOCKS)/base.lock -c $(LOCKS)/mockgcp.lock -c $(LOCKS)/trainer.lock \
	  -o $(LOCKS)/trainer-gpu.lock
	$(COMPILE) --group ray -c $(LOCKS)/base.lock -c $(LOCKS)/mockgcp.lock -c $(LOCKS)/trainer.lock -o $(LOCKS)/ray.lock
	$(COMPILE) --group dev -c $(LOCKS)/bootstrap.lock -c $(LOCKS)/base.lock -c $(LOCKS)/mockgcp.lock \
	  -c $(LOCKS)/trainer.lock -c $(LOCKS)/ray.lock -o $(LOCKS)/dev.lock

doctor: env  ## every tool found, and the cloud that this shell points at
	@$(BIN)/holdfast doctor

bench: engine  ## the benchmark's ratios
	@$(BIN)/python -m tests.bench $(ARGS)

clean:  ## removes .venv and what tests and linters leave; the cache of tools stays
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
