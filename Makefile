# Two commands matter to a newcomer: `make demo` and `make test`. Each target does its own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=
# One more than two cores are for: tests on the real control plane wait most of their time.
TEST_PROCESSES ?= 3
# Tests start many programs: each would compile the package anew where the environment forbids to keep bytecode.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-full nightly check generated format docs bench controlplane lock clean

help: ## what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

demo: $(VENV)/.runtime ## a simulated GPU cluster at work: in this terminal, a browser, and for kubectl
	@$(BIN)/ullage demo

test: $(VENV)/.dev controlplane ## a sample of every kind of test
	@$(BIN)/python -m compileall -q -j 0 ullage
	$(BIN)/pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

test-full: $(VENV)/.dev controlplane ## every size, in slices that resume; results in bench/results/
	$(BIN)/python -m bench.full $(ARGS)

nightly: $(VENV)/.dev ## chaos seeds that nobody has played, for as long as told: make nightly ARGS="--for 8h --processes 2"
	$(BIN)/python -m bench.chaos $(or $(ARGS),--for 8h)

check: $(VENV)/.dev ## lint, types, layers, generated docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@$(MAKE) --no-print-directory generated

generated: $(VENV)/.dev ## are generated docs and CRDs as the code says?
	$(BIN)/python -m ullage.cli.reference --check docs/generated
	$(BIN)/python -m ullage.kube.crds --check deploy/crds
	$(BIN)/python -m ullage.deploy --check deploy

format: $(VENV)/.dev ## put code and generated docs in shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/python -m ullage.cli.reference docs/generated
	$(BIN)/python -m ullage.kube.crds deploy/crds
	$(BIN)/python -m ullage.deploy deploy

docs: .cache/docs-venv/.ready ## the documentation as a site, in .cache/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 .cache/docs-venv/bin/mkdocs build --strict
	@echo "open .cache/site/index.html"

.cache/docs-venv/.ready: requirements/docs.lock
	@$(PYTHON) -m venv .cache/docs-venv
	@.cache/docs-venv/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes -r requirements/docs.lock
	@touch $@

bench: $(VENV)/.dev controlplane ## speed and memory beside the peer, in one run
	$(BIN)/python -m bench.run $(ARGS)

controlplane: $(VENV)/.dev ## etcd, kube-apiserver and the rest, built once into a per-user cache
	@$(BIN)/python -m ullage.testing.controlplane build

lock: ## pin dependencies again, with hashes (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra agent --extra aws --extra otel --extra ray --extra testing --group dev --group build pyproject.toml -o requirements/dev.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group build --constraint requirements/dev.lock pyproject.toml -o requirements/runtime.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --extra agent --extra aws --extra otel --group build --constraint requirements/dev.lock pyproject.toml -o requirements/image.lock
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	  --group docs -o requirements/docs.lock

clean: ## forget the environment and what tests left (not the control plane's cache)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .cache dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ullage needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@echo "creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "cannot create a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }

$(VENV)/.runtime: requirements/runtime.lock pyproject.toml | $(VENV)/bin/python
	@echo "installing what ullage needs to run (about half a minute)"
	@$(PIP) install --require-hashes -r requirements/runtime.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.runtime
	@echo "installing what tests and checks need (about a minute and a half)"
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@touch $@
