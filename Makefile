# The two commands: `make lab` opens the course, `make test` passes the tests. Both set up first.
PYTHON ?= python3
BIN := .venv/bin
# what is installed: all, or what the course needs
SETUP := .venv/.ready
LAB := .venv/.lab
export OMP_NUM_THREADS ?= 1
# a file's tests stay together, for they share what took long to make. They wait for kernels and
# browsers a third of the time, so three processes keep two cores busy; with little memory: PROCESSES=2
PROCESSES ?= 3
PYTEST := $(BIN)/pytest -q -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
# what takes longest begins first, so that no core is idle at the end
FIRST := $(addprefix tests/,assignments test_examples.py browser test_set_up.py test_fuzz.py) notebooks \
  $(addprefix tests/,explore engines)
REST := $(filter-out $(FIRST),$(patsubst %/,%,$(wildcard tests/[a-z]*/)) $(wildcard tests/test_*.py))
NBVAL := --nbval-lax --nbval-cell-timeout=600 --nbval-kernel-startup-timeout=300 -p no:cacheprovider
# uv leaves compiling to the first import; each later one would compile torch again if nothing were kept
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help lab test check types unit long slow demo bench notebooks format clean setup setup-lab nbval browser flower site
.PHONY: other-machines wheel plot-time coverage links solutions peers pythons gpu slides intersection

help:  ## what there is to type
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-21s%s\n", $$1, $$2}'

lab: $(LAB)  ## open the course in JupyterLab
	$(BIN)/jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/00_start_here.ipynb

test: $(SETUP) check  ## all tests: check, slow ones, notebooks, browser and site, wheel, other machines
	$(MAKE) -j 2 long wheel other-machines

check: $(SETUP)  ## quick: format, lint, types, unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) -j 2 types unit

types: $(SETUP)
	$(BIN)/mypy

unit: $(SETUP)
	$(BIN)/pytest -q -n 2 --dist worksteal -p no:nbval -m "not browser and not slow and not later and not solutions"

# the next three and `make site` in one run, so that no core is idle at the end of each
long: $(SETUP)
	$(PYTEST) $(NBVAL) -m "slow or later or browser" $(FIRST) $(REST)

slow: $(SETUP)
	$(PYTEST) -m "slow or later" tests

other-machines: $(SETUP)  ## what could depend on the processor, as on one with AVX2 and one with SSE
	$(BIN)/python tests/machines.py

solutions: $(SETUP)  ## run each notebook with its folded solutions: do all checks pass?
	$(BIN)/pytest -q -n 2 -m solutions tests/course

nbval: $(SETUP)
	$(PYTEST) $(NBVAL) notebooks

browser: $(SETUP)
	$(PYTEST) -m browser tests/browser tests/explore

flower: .venv-flower/.ready  ## FedAvg over Flower: tests, simulation, a deployment on this machine
	.venv-flower/bin/pytest -q tests/engines/test_flower.py
	PATH="$(CURDIR)/.venv-flower/bin:$$PATH" python examples/flower/compare.py --deployment --rounds 3

intersection: .venv-intersection/.ready  ## private set intersection: its tests, in an environment of their own
	.venv-intersection/bin/pytest -q tests/secrecy/test_intersection.py

wheel: $(SETUP)  ## build wheel and sdist into dist/, install the wheel elsewhere and try it
	$(BIN)/python tools/try_wheel.py

plot-time: $(SETUP)  ## how long it takes from git clone to the first moving plot
	$(BIN)/python tools/time_to_plot.py

links: $(SETUP)  ## are the addresses on other sites still there? (needs a network)
	$(BIN)/sphinx-build -q -b linkcheck -c docs . build/links

coverage: $(SETUP)  ## which lines of the package the unit tests run
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n 2 -m "not browser and not slow and not solutions" tests
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

site: $(SETUP)  ## the course as a website, from the saved outputs: build/site/index.html
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/site

pythons: $(SETUP)  ## the quick tests with each Python, and with the lowest versions of all packages
	$(BIN)/python tools/try_pythons.py

slides: $(SETUP)  ## the notebooks with their saved outputs as slides: build/slides
	$(BIN)/python tools/make_slides.py build/slides

demo: $(LAB)  ## no browser: train SplitNN, print the table, draw accuracy over bytes
	$(BIN)/python examples/demo.py

bench: $(SETUP)  ## how fast training and codecs are, as ratios to named peers
	$(BIN)/python -m benchmarks.goals
	$(BIN)/python -m benchmarks.split_speed
	$(BIN)/python -m benchmarks.codec_speed
	$(BIN)/python -m benchmarks.live_cost

peers: .venv-fedjax/.ready  ## other frameworks for `make bench`, in environments of their own

gpu: $(SETUP)  ## run the rows that wait for a graphics card, the most telling first
	$(BIN)/python -m experiments.gpu --run

notebooks: $(SETUP)  ## run all notebooks again and save their outputs
	$(BIN)/python tools/run_notebooks.py

format: $(SETUP)  ## put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(SETUP)  ## only create .venv and install all that the tests need

setup-lab: $(LAB)  ## only create .venv and install what the course needs

clean:  ## remove .venv and caches
	rm -rf .venv .venv-flower .venv-intersection .venv-fedjax build dist .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis test-artifacts

# tools/install.py puts torch first and alone, in the tested version: nothing later may then pull in another one
$(LAB): pyproject.toml constraints.txt tools/install.py | python
	$(PYTHON) tools/install.py .venv -c constraints.txt -e ".[lab]"
	touch $@

$(SETUP): pyproject.toml constraints.txt tools/install.py | python
	$(PYTHON) tools/install.py .venv -c constraints.txt -e ".[lab,dev,syft]"
	touch $(LAB) $@

# Flower 1.41 wants older releases than the tested set (packaging below 26), so it has a place of its own
.venv-flower/.ready: pyproject.toml tools/install.py | python
	$(PYTHON) tools/install.py .venv-flower -e ".[flower]" "flwr[simulation]" beartype pytest
	touch $@

# private set intersection wants an older protobuf than PySyft and Flower
.venv-intersection/.ready: pyproject.toml tools/install.py | python
	$(PYTHON) tools/install.py .venv-intersection -e ".[secrecy,intersection]" beartype pytest
	touch $@

# the released fedjax wants jax below 0.6
.venv-fedjax/.ready: tools/install.py | python
	$(PYTHON) tools/install.py .venv-fedjax --without-torch "jax==0.5.3" "jaxlib==0.5.3" "fedjax==0.0.17"
	touch $@

.PHONY: python
python:
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) here: fltoolkit needs Python 3.10 or newer. Say: make PYTHON=python3.12 lab"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "fltoolkit needs Python 3.10 or newer; this is " + sys.version.split()[0] + ". Say: make PYTHON=python3.12 lab")'
