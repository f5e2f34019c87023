# Everything runs in .venv, which `setup` makes. `make help` lists the targets.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.setup-done

.PHONY: help setup test check lint demo lab bench soak proto clean

help:  ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*##/\t/' | expand -t 12

setup: $(SETUP)  ## the environment, and the system packages that tests use where they may be installed
$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python tests/system_packages.py
	@touch $(SETUP)

test: lint  ## everything: lint, types, units, whole systems (minutes)
	$(BIN)/python -m pytest

check: lint  ## lint, types, fast tests (under a minute)
	$(BIN)/python -m pytest -m 'not slow'

lint: setup
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/generated_code.py --check

demo: setup  ## two kernels, two notebooks, one link, and a table of what happened
	$(BIN)/duetlink demo

lab: setup  ## the two notebooks in JupyterLab, to do it by hand
	$(BIN)/jupyter lab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

bench: setup  ## the benchmark tables (minutes)
	$(BIN)/python -m benchmarks

soak: setup  ## a link cut a hundred times, and a day compressed (half an hour; root)
	$(BIN)/python -m benchmarks soak day

proto: setup  ## generate the protobuf code anew
	$(BIN)/python tests/generated_code.py

clean:  ## remove what setup and runs made
	rm -rf .venv notebooks/run benchmarks/results .pytest_cache .mypy_cache .ruff_cache .hypothesis
