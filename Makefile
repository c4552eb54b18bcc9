# Everything sets itself up: the first call makes .venv (a minute or two), later ones start at once.
# Another interpreter: make PYTHON=python3.12 test

PYTHON ?= python3
FAULT ?= python
BACKEND ?= otlp
OUT ?= build/demo
WINDOW ?= 5
STACK ?= stack
LOCK_PYTHONS ?= python3.11 python3.10
TORCH_INDEX ?=
CASES ?=
SEEDS ?= published
MINUTES ?= inf
CLEAN ?=
FRESH ?=

BIN := .venv/bin
MADE := .venv/.made-by-$(subst /,_,$(PYTHON))
READY := .venv/.ready
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help setup servers demo test lint types contracts unit e2e stack format bench faults docs site manifests wheel support interpreters oldest lock clean
# An environment without any PATH (env -i) is one too.
ifeq ($(PATH),)
export PATH := /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
endif
# What the caller's shell points Python at must not decide what is tested.
unexport PYTHONPATH PYTHONHOME PYTHONSTARTUP VIRTUAL_ENV

help: ## show this list
	@sed -n 's/^\([a-z0-9]*\):[^#]*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | awk -F'|' '{printf "%-18s %s\n", $$1, $$2}'

demo: $(READY) ## see it work: a training, a fault (FAULT=python, input, cpu, network or none), the verdict (BACKEND=prometheus: the alert)
	@$(BIN)/eroica-otel demo --backend "$(BACKEND)" --fault "$(FAULT)" --out "$(OUT)" --window "$(WINDOW)"

test: servers lint types contracts unit e2e ## run lint, types, contracts, unit tests and the loop end to end (CI adds stack)
	@echo "make test: lint, types, import contracts, unit tests and the loop end to end passed"

lint: $(READY) ## check style and format
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check

types: $(READY) ## check types
	@$(BIN)/mypy

contracts: $(READY) ## check which part may import which
	@$(BIN)/lint-imports --no-logo

# On Debian as root they are installed; nothing starts, since the tests start and end their own.
servers: ## find Prometheus, Alertmanager, VictoriaMetrics and Chromium, which the tests start; on Debian as root, install them
	@sh .ci/servers

unit: $(READY) ## run the tests that need no training job
	@$(BIN)/pytest -q -n auto --dist loadfile -m "not e2e and not stack"

e2e: $(READY) ## run the tests of the loop on one machine, with real training jobs
	@$(BIN)/pytest -q -m "e2e and not stack and not frameworks"

stack: $(READY) servers ## run the tests with nodes, real servers, hangs, zero code, launchers and packages
	@BIN="$(BIN)" STACK="$(STACK)" .ci/lanes

# The page is written from what came out, also where a training failed.
support: $(READY) ## install the frameworks of docs/support.md, run all its trainings, write what they came to
	@$(PIP) install --no-compile --no-build-isolation --no-deps -r requirements-support.lock
	@code=0; SUPPORT_RESULTS=1 $(BIN)/pytest -q tests/e2e/test_support.py tests/e2e/test_support_frameworks.py || code=$$?; \
	  $(BIN)/python docs/generate.py; exit $$code

interpreters: ## run the unit tests on every Python of 3.10 to 3.13 that is found
	@.ci/interpreters

format: $(READY) ## put the code into its format
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(READY) ## run the benchmarks, but for bench/soak.py, which takes half an hour
	@set -e; for script in $(filter-out bench/soak.py,$(wildcard bench/*.py)); do echo "== $$script"; PYTHONPATH=. $(BIN)/python $$script; done

faults: $(READY) servers ## run the fault board and write its pages (CASES=pattern, SEEDS=all, MINUTES=60, CLEAN=1, FRESH=1)
	@$(BIN)/python -m bench.faults.run --cases "$(CASES)" --seeds "$(SEEDS)" --minutes "$(MINUTES)" \
	  $(if $(CLEAN),--clean) $(if $(FRESH),--fresh)

docs: $(READY) ## renew the tables that follow from code
	@$(BIN)/python docs/generate.py
	@$(BIN)/python -m bench.faults.page
	@$(BIN)/python alerts/generate.py
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' && $(BIN)/python grafana/generate.py || \
	  echo "make: the dashboards stay as they are: its generator needs Python 3.11"

site: $(READY) ## build the documentation as a site into build/site; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

manifests: $(READY) ## write rules, dashboards, localizer and node agent for Kubernetes into build/kubernetes (kustomize)
	@$(BIN)/python deploy/generate.py

wheel: $(READY) ## build wheel and sdist into dist/
	@$(BIN)/python -m build --no-isolation --outdir dist

oldest: ## run the unit tests with the oldest allowed dependencies (TORCH_INDEX=URL: one more index, for torch)
	@PYTHON="$(PYTHON)" TORCH_INDEX="$(TORCH_INDEX)" .ci/oldest

lock: ## pin the development environment anew
	@$(PYTHON) .ci/lock.py $(LOCK_PYTHONS)

setup: $(READY) ## only set up .venv
	@echo "ready: $(BIN)"

clean: ## remove .venv and everything that was built
	@rm -rf .venv build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@command -v "$(PYTHON)" > /dev/null || { \
	  echo "make: there is no $(PYTHON); name a Python of 3.10 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "make: $(PYTHON) is $$("$(PYTHON)" --version 2>&1); eroica-otel needs 3.10 or newer: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2> /dev/null || { \
	  echo "make: $(PYTHON) cannot make a virtual environment; add its venv module (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "setting up .venv (once; it downloads PyTorch) ..."
	@"$(PYTHON)" -m venv --clear .venv
	@touch $@

# The lock holds every package, so the project itself needs no resolver and no isolated build.
$(READY): $(MADE) requirements-dev.lock pyproject.toml hatch_build.py
	@$(PIP) install --no-compile -r requirements-dev.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@$(PIP) check > /dev/null
	@$(BIN)/python -c "import torch, torch.distributed, torch.profiler, opentelemetry.sdk.metrics"
	@touch $@
