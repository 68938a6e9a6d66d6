# Trunkline: `make run` starts a broker, `make test` runs everything that must hold. `make help` lists the rest.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install install-test run test format lint types layers pytest compat differ chaos bench lock clean

help:  ## what there is to make
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(VENV)/.installed  ## .venv with everything needed to run
install-test: $(VENV)/.installed-test

run: $(VENV)/.installed  ## install, then serve on the default ports; ARGS="…" passes flags on
	@exec $(BIN)/trunkline serve $(ARGS)

test: $(VENV)/.installed-test format lint types layers pytest  ## install the test tools; format, lint, types, layering, all tests

format: $(VENV)/.installed-test
	$(BIN)/ruff format --check .

lint: $(VENV)/.installed-test
	$(BIN)/ruff check .

types: $(VENV)/.installed-test
	$(BIN)/mypy

layers: $(VENV)/.installed-test
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

pytest: $(VENV)/.installed-test
	$(BIN)/pytest -n 2 $(ARGS)

compat: $(VENV)/.installed-test  ## the peers' own tools and clients against this broker (tests/compat); takes minutes
	$(BIN)/python -m tests.compat $(ARGS)

differ: $(VENV)/.installed-test  ## the same raw requests to Apache Kafka and to this broker, answer by answer; takes minutes
	$(BIN)/python -m tests.compat.differential $(ARGS)

chaos: $(VENV)/.installed-test  ## kill the node again and again under real clients; writes docs/reliability.md
	$(BIN)/python -m tests.chaos --report docs/reliability.md $(ARGS)

bench: $(VENV)/.installed-test  ## side by side with Apache Kafka in the same run; writes docs/benchmarks.md
	$(BIN)/python -m bench $(ARGS)

lock: $(VENV)/.installed-test  ## write constraints.txt anew from the ranges in pyproject.toml
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --no-header --no-annotate --strip-extras --all-extras --upgrade \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --output-file constraints.txt pyproject.toml

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Trunkline needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.installed
