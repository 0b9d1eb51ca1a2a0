# `make help` lists the targets. Needs Python >= 3.11, make and a package index; everything else goes into .venv.

PYTHON ?= python3
ROUNDS ?= 100000
SEEDS ?= 20
OUT ?= results/demo
TEST_JOBS ?= auto
TESTS ?=
LOCK_FLAGS ?=
BENCH_FLAGS ?=
SUITE_FLAGS ?=
AUDIT_FLAGS ?=
SERVE_FLAGS ?=

VENV := .venv
BENCH_VENV := .venv-bench
RUN := $(VENV)/bin/python -m
EQUIPOISE := $(VENV)/bin/equipoise
COMPILE = build/lock/bin/uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-annotate --no-header --quiet $(LOCK_FLAGS)
PIP_INSTALL := $(RUN) pip install --quiet --quiet --disable-pip-version-check

# One BLAS thread per process: work is spread over processes, and results do not depend on the number of cores.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

# Tests start many processes: without bytecode on disk each of them would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv demo serve test quick lint style types everything interpreted bounds bench suite audit chaos lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' Makefile

demo: venv ## run the nested experiment; figure and report go to OUT (ROUNDS, SEEDS)
	$(EQUIPOISE) run nested --rounds $(ROUNDS) --seeds $(SEEDS) --out $(OUT)

serve: venv ## start the example shop with the service, its dashboard and visitors; Ctrl-C ends it (SERVE_FLAGS)
	@$(VENV)/bin/python examples/shop $(SERVE_FLAGS)

test: style ## lint, and run all tests and documented examples in parallel (TEST_JOBS)
	@$(MAKE) --no-print-directory --jobs 2 types everything

quick: lint ## lint, then run the fast tests, or those of TESTS, such as TESTS=tests/learners, that compile nothing
	$(RUN) pytest -n 2 -m "not (statistical or compiled$(if $(TESTS),, or slow))" $(TESTS)

audit: venv ## check what theory promises against simulation; report goes to results/audit (some minutes)
	$(EQUIPOISE) audit $(AUDIT_FLAGS)

lint: style types ## check style, format and types

style: venv
	$(RUN) ruff check .
	$(RUN) ruff format --check .

types: venv
	$(RUN) mypy

# The order of files is that of tests/conftest.py: the longest first.
everything: venv
	$(RUN) pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

bench: venv $(BENCH_VENV)/.requirements ## measure the time per round beside other libraries; writes docs/benchmarks.md
	$(RUN) tools.bench --peers $(BENCH_VENV)/bin/python $(BENCH_FLAGS)

suite: venv ## run every selector on the same instances; writes docs/suite.md (SUITE_FLAGS; under twenty minutes)
	$(EQUIPOISE) suite $(SUITE_FLAGS)

chaos: venv ## check what live portfolios, journals and the service promise at full size (two hours; needs wrk)
	$(RUN) tools.studies.live_portfolio
	$(RUN) tools.studies.kill_journal
	$(RUN) tools.studies.kill_service
	$(RUN) tools.studies.kill_service --term --kills 40 --events 100000
	$(RUN) tools.studies.attacks
	$(RUN) tools.studies.uvicorn_versions
	$(RUN) tools.studies.soak

interpreted: venv ## run the tests as plain Python, without compiling anything (some ten minutes)
	NUMBA_DISABLE_JIT=1 $(RUN) pytest -n $(TEST_JOBS)

bounds: venv ## run what is compiled with every array index checked
	NUMBA_BOUNDSCHECK=1 $(RUN) pytest -n $(TEST_JOBS) tests/simulation/test_rounds.py

venv: $(VENV)/.package ## create or refresh .venv if it is stale (PYTHON)

lock: ## compile both requirements.in into requirements.txt (LOCK_FLAGS=--upgrade for newer versions)
	$(PYTHON) -m venv --clear build/lock
	build/lock/bin/python -m pip install --quiet --quiet uv
	$(COMPILE) requirements.in --output-file requirements.txt
	$(COMPILE) tools/benchmarks/requirements.in --output-file tools/benchmarks/requirements.txt --override tools/benchmarks/overrides.txt

clean: ## remove the environments, caches and build files, but no results
	rm -rf $(VENV) $(BENCH_VENV) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Two stamps, so that a change of pyproject.toml alone installs the package anew and not its dependencies.
$(VENV)/.requirements: requirements.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("equipoise needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + ": try make PYTHON=python3.11")'
	@echo "Creating $(VENV) and installing the pinned requirements (a minute or so)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(PIP_INSTALL) --require-hashes --requirement requirements.txt
	@touch $@

$(VENV)/.package: $(VENV)/.requirements pyproject.toml
	@echo "Installing equipoise into $(VENV)"
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(BENCH_VENV)/.requirements: tools/benchmarks/requirements.txt tools/benchmarks/install.py
	@echo "Creating $(BENCH_VENV) with the libraries to compare with (a few minutes)"
	@$(PYTHON) -m venv --clear $(BENCH_VENV)
	@$(BENCH_VENV)/bin/python tools/benchmarks/install.py tools/benchmarks/requirements.txt
	@touch $@
