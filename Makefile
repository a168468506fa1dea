# `make quickstart` and `make test` work on a fresh machine: each makes .venv if no environment is active and installs
# what is missing. Inside an active virtual environment they use that one.
SHELL := /bin/bash
PYTHON ?= python3
ifdef VIRTUAL_ENV
  VENV := $(VIRTUAL_ENV)
else
  VENV := .venv
endif
PY := $(VENV)/bin/python
STAMP := $(VENV)/.toolcredit-installed
# One thread per process: two OpenMP threads on two shared cores can make a step several times slower.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM := false

.PHONY: help quickstart test lint install clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/'

quickstart: install  ## install, then train FGPO and GRPO on the embedded questions and open a report
	$(PY) -m toolcredit data install smollm2
	$(PY) -m toolcredit quickstart $(ARGS)

test: install lint  ## install, lint, type-check, run all tests
	$(PY) -m toolcredit data install smollm2
	$(PY) -m pytest -q $(ARGS)

lint: install  ## ruff and mypy
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) scripts/typecheck.py

install: $(STAMP)  ## make .venv if needed and install the package with everything for development

$(STAMP): pyproject.toml constraints.txt
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	# torch first and by itself: resolved together with the rest, pip may choose a CUDA build of several gigabytes.
	$(PY) -c "import torch" 2>/dev/null || $(PY) -m pip install -q -c constraints.txt torch
	$(PY) -m pip install -q -c constraints.txt -e '.[train,dev]'
	@touch $@

clean:  ## remove build products, not .venv and not runs/
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .hypothesis
