# The two commands: `make lab` opens the course, `make test` passes the tests. Both set up first.
PYTHON ?= python3
BIN := .venv/bin
# what is installed: all, or what the course needs
SETUP := .venv/.ready
LAB := .venv/.lab
export OMP_NUM_THREADS ?= 1
# The tests of a file run in one process, because they share fixtures that take long. They wait for kernels
# and browsers a third of the time, so three processes keep two cores busy; with little memory: PROCESSES=2
PROCESSES ?= 3
PYTEST := $(BIN)/pytest -q -n $(PROCESSES) --dist loadfile --no-loadscope-reorder
# the longest tests begin first, so that no core is idle at the end
FIRST := $(addprefix tests/,grading browser test_set_up.py) notebooks \
  $(addprefix tests/,explore engines)
REST := $(filter-out $(FIRST),$(patsubst %/,%,$(wildcard tests/[a-z]*/)) $(wildcard tests/test_*.py))
NBVAL := --nbval-lax --nbval-cell-timeout=600 --nbval-kernel-startup-timeout=300 -p no:cacheprovider
# uv leaves compiling to the first import; without __pycache__ each later import would compile torch again
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help lab test check types unit long slow nightly demo bench notebooks format clean setup setup-lab nbval browser flower site
.PHONY: other-machines oldest-machine wheel wheel-beside coverage links solutions peers pythons gpu slides intersection nvflare

help:  ## list these commands; docs/contributing.md has those for maintainers
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-21s%s\n", $$1, $$2}'

lab: $(LAB)  ## open the course in JupyterLab, in copies without answers: my-course/
	$(BIN)/fltoolkit course my-course

test: $(SETUP) check  ## all tests: check, slow ones, notebooks, browser and site, wheel, an older machine
	$(MAKE) -j 2 long wheel-beside oldest-machine

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
	$(PYTEST) $(NBVAL) -m "(slow or later or browser) and not nightly" $(FIRST) $(REST)

slow: $(SETUP)
	$(PYTEST) -m "slow or later" tests

other-machines: $(SETUP)  # tests that could depend on the processor, as with AVX2 and as with SSE
	$(BIN)/python tests/machines.py

oldest-machine: $(SETUP)  # as with SSE only
	$(BIN)/python tests/machines.py SSE

solutions: $(SETUP)  # run each notebook with its solutions, and its checks
	$(BIN)/pytest -q -n 2 -m solutions tests/course

nightly: $(SETUP) other-machines  # what is too long for each change: solutions, each notebook in JupyterLab, all machines
	$(BIN)/pytest -q -n 2 --dist loadfile -m "nightly or solutions" tests
	$(BIN)/pytest -q -n 2 -m hypothesis --hypothesis-profile=search tests
	$(BIN)/python tools/fuzz.py --seconds 300

nbval: $(SETUP)
	$(PYTEST) $(NBVAL) notebooks

browser: $(SETUP)
	$(PYTEST) -m browser tests/browser tests/explore

flower: .venv-flower/.ready  # FedAvg over Flower: tests, simulation, a deployment on this machine
	.venv-flower/bin/pytest -q tests/engines/test_flower.py tests/engines/test_flower_meter.py
	@case "$(CURDIR)" in *" "*) echo "$(CURDIR): Ray starts no worker in a path with a space; clone into a path without one"; exit 2;; esac
	PATH="$(CURDIR)/.venv-flower/bin:$$PATH" python examples/flower/compare.py --deployment --rounds 3

nvflare: .venv-nvflare/.ready  # tests of the meter for NVFlare, in an environment of their own
	.venv-nvflare/bin/pytest -q tests/engines/test_nvflare_meter.py

intersection: .venv-intersection/.ready  # tests of private set intersection, in an environment of their own
	.venv-intersection/bin/pytest -q tests/replications/test_intersection.py

wheel: $(SETUP)  # build wheel and sdist into dist/, install the wheel elsewhere with all it needs and try it
	$(BIN)/python tools/try_wheel.py

wheel-beside: $(SETUP)  # the same, with what .venv has
	$(BIN)/python tools/try_wheel.py --beside

links: $(SETUP)  # check that the addresses on other sites still exist (needs a network)
	$(BIN)/sphinx-build -q -b linkcheck -c docs . build/links

coverage: $(SETUP)  # list the lines of the package that the unit tests run
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n 2 -m "not browser and not slow and not solutions" tests
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

site: $(SETUP)  ## the course as a website, from the saved outputs: build/site/index.html
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/site

pythons: $(SETUP)  # the quick tests with each Python, and with the lowest versions of all packages
	$(BIN)/python tools/try_pythons.py

slides: $(SETUP)  # the notebooks with their saved outputs as slides: build/slides
	$(BIN)/python tools/make_slides.py build/slides

demo: $(LAB)  ## no browser: train SplitNN, print the table, draw accuracy over bytes
	$(BIN)/python examples/demo.py

bench: $(SETUP)  ## measure training and codecs, compared with other code
	$(BIN)/python -m benchmarks.goals
	$(BIN)/python -m benchmarks.split_speed
	$(BIN)/python -m benchmarks.codec_speed
	$(BIN)/python -m benchmarks.codec_peers

peers: .venv-fedjax/.ready .venv-codecs/.ready  # other systems for `make bench`, apart from .venv

gpu: $(SETUP)  # run the experiments that need a GPU, the most useful first
	$(BIN)/python -m experiments.language.tuned --study python --choose --device cuda --jobs $$(nproc)
	$(BIN)/python -m experiments.language.tuned --study python --device cuda --jobs $$(nproc)

notebooks: $(SETUP)  # run all notebooks again and save their outputs
	$(BIN)/python tools/run_notebooks.py

format: $(SETUP)  ## format the code and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

setup: $(SETUP)  ## only create .venv and install everything that the tests need

setup-lab: $(LAB)  # only create .venv and install what the course needs

clean:  # remove .venv and caches
	rm -rf .venv .venv-flower .venv-nvflare .venv-intersection .venv-fedjax .venv-codecs build dist .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis test-artifacts

# with this package, jsonschema compiles 38 grammars of addresses wherever JupyterLab starts or a notebook is read: two
# seconds; without it, it checks all but these addresses, which no notebook has
QUICKER := $(BIN)/python -m pip uninstall -q -y rfc3987-syntax
# tools/install.py installs torch first and alone, in the tested version, so that no later package installs another
$(LAB): pyproject.toml constraints.txt tools/install.py | python
	$(PYTHON) tools/install.py .venv -c constraints.txt -e ".[course]"
	$(QUICKER)
	touch $@

$(SETUP): pyproject.toml constraints.txt tools/install.py | python
	$(PYTHON) tools/install.py .venv -c constraints.txt -e ".[course,dev]"
	$(QUICKER)
	touch $(LAB) $@

# Flower 1.41 needs older releases than the tested set (packaging below 26), so it has an environment of its own
.venv-flower/.ready: pyproject.toml tools/install.py | python
	UV_COMPILE_BYTECODE=1 $(PYTHON) tools/install.py .venv-flower -e ".[flower]" "flwr[simulation]" beartype jaxtyping pytest
	touch $@

# NVFlare is only a peer: its server and clients bring packages that nothing else here needs
.venv-nvflare/.ready: pyproject.toml tools/install.py | python
	$(PYTHON) tools/install.py .venv-nvflare -e . "nvflare>=2.9" beartype jaxtyping pytest
	touch $@

# private set intersection needs an older protobuf than PySyft and Flower
.venv-intersection/.ready: pyproject.toml tools/install.py | python
	$(PYTHON) tools/install.py .venv-intersection -e ".[secrecy,intersection]" beartype jaxtyping pandas pytest
	touch $@

# the released fedjax needs jax below 0.6
.venv-fedjax/.ready: tools/install.py | python
	$(PYTHON) tools/install.py .venv-fedjax --without-torch "jax==0.5.3" "jaxlib==0.5.3" "fedjax==0.0.17"
	touch $@

# without their requirements, some of which would replace torch
.venv-codecs/.ready: | $(SETUP)
	$(BIN)/python -m pip install -q --no-deps --target .venv-codecs blosc2 ndindex msgpack numexpr bitsandbytes hivemind protobuf \
	  grpcio sortedcontainers uvloop configargparse prefetch_generator multiaddr pymultihash cryptography cffi varint base58 netaddr
	touch $@

.PHONY: python
python:
	@command -v $(PYTHON) >/dev/null || { echo "no $(PYTHON) here: fltoolkit needs Python 3.10 or newer. Run: make PYTHON=python3.12 lab"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "fltoolkit needs Python 3.10 or newer; this is " + sys.version.split()[0] + ". Run: make PYTHON=python3.12 lab")'
