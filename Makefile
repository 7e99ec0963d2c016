# The two commands: `make lab` opens the course, `make test` passes the tests. Both set up first.
PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/.ready
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help lab test check slow demo bench notebooks format clean setup nbval browser flower site

help:  ## what there is to type
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s%s\n", $$1, $$2}'

lab: $(SETUP)  ## open the course in JupyterLab
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/00_start_here.ipynb

test: $(SETUP) check slow nbval browser site  ## all tests: check, slow ones, notebooks, browser, site

check: $(SETUP)  ## quick: format, lint, types, unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n 2 -m "not browser and not slow"

slow: $(SETUP)
	$(BIN)/pytest -q -n 2 --dist loadfile -m slow tests

nbval: $(SETUP)
	$(BIN)/pytest -q -n 2 --dist loadfile --nbval-lax --nbval-cell-timeout=120 -p no:cacheprovider notebooks

browser: $(SETUP)
	$(BIN)/pytest -q -m browser tests/browser tests/explore

flower: .venv-flower/.ready  ## FedAvg over Flower: tests, simulation, a deployment on this machine
	.venv-flower/bin/pytest -q tests/engines/test_flower.py
	PATH="$(CURDIR)/.venv-flower/bin:$$PATH" python examples/flower/compare.py --deployment --rounds 3

site: $(SETUP)  ## the course as a website, from the saved outputs: build/site/index.html
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/site

demo: $(SETUP)  ## no browser: train SplitNN, print the table, draw accuracy over bytes
	$(BIN)/python examples/demo.py

bench: $(SETUP)  ## how fast training and codecs are, as ratios to named peers
	$(BIN)/python -m benchmarks.split_speed
	$(BIN)/python -m benchmarks.codec_speed
	$(BIN)/python -m benchmarks.live_cost

notebooks: $(SETUP)  ## run all notebooks again and save their outputs
	$(BIN)/python tools/run_notebooks.py

format: $(SETUP)  ## put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(SETUP)  ## only create .venv and install

clean:  ## remove .venv and caches
	rm -rf .venv .venv-flower .pytest_cache .mypy_cache .ruff_cache .hypothesis test-artifacts

# torch first and alone, in the tested version: nothing later may then pull in another one
$(SETUP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) here: fltoolkit needs Python 3.10 or newer. Say: make PYTHON=python3.12 lab"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "fltoolkit needs Python 3.10 or newer; this is " + sys.version.split()[0] + ". Say: make PYTHON=python3.12 lab")'
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[lab,dev,syft]"
	touch $(SETUP)

# Flower 1.41 wants older releases than the tested set (packaging below 26), so it has a place of its own
.venv-flower/.ready: pyproject.toml
	test -d .venv-flower || $(PYTHON) -m venv .venv-flower
	.venv-flower/bin/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	.venv-flower/bin/python -m pip install --quiet --disable-pip-version-check -e ".[flower]" "flwr[simulation]" beartype pytest
	touch $@
