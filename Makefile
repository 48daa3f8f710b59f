# All commands for developers and CI. They need only Python (tested with 3.11): each target first
# makes .venv and installs what it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
PEERS := .venv-peers/.installed
# One more than the two cores of CI: some tests wait for processes, signals and time limits.
WORKERS ?= 3
EXTRAS ?= dev,mpi,tf-cpu,mujoco,box2d,atari,minatar,video,track,cluster,tune,export,docs
CONSTRAINTS ?= constraints.txt
ALGO ?= ppo
ENV ?= CartPole-v1

.PHONY: help .venv train test pytest lint types format docs docs-test browser notebooks bench learn twins attack soak probe zoo speed scaling peers clean
.PHONY: docs figures wheel docs-test browser

help: ## show this list
	@grep -E '^[.a-z-]+:.*## ' Makefile | sed -E 's/^([.a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

.venv: $(STAMP) ## make or update the virtual environment

# The stamp is written last, so that an interrupted install is repeated. pip compiles on one core,
# compileall on all of them; it fails because some packages have files that do not compile.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile -c $(CONSTRAINTS) -e '.[$(EXTRAS)]'
	$(BIN)/python -W ignore -m compileall -qq -j 0 -x '/tests?/' .venv/lib || true
	touch $@

train: $(STAMP) ## train PPO on CartPole; saves a learning curve and a clip of the agent
	$(BIN)/python -m spinup.quickstart

test: lint ## lint, check types and run the test suite
	$(MAKE) --no-print-directory -j2 types pytest

# Tests start hundreds of processes: each would compile the package again where the environment
# forbids Python to write bytecode.
pytest: $(STAMP) ## run the test suite only
	$(BIN)/python -m compileall -q spinup
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

lint: $(STAMP) ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## check types
	$(BIN)/mypy

format: $(STAMP) ## reformat the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## build the documentation site, build/docs/html/index.html
	$(BIN)/python docs/build.py

figures: $(STAMP) ## draw the figures of the documentation from the benchmarks' results
	$(BIN)/python docs/figures/make_figures.py

wheel: docs ## build a wheel that contains the documentation site, in dist
	SPINUP_MANUAL=build/docs/html $(BIN)/python -m build --wheel --no-isolation

docs-test: $(STAMP) ## look at every page of the site in a browser; skipped if there is none
	$(BIN)/python -m pytest -m browser tests/site

browser: $(STAMP) ## find a browser for docs-test, or unpack Debian's in .browser
	$(BIN)/python docs/browser.py

notebooks: $(STAMP) ## run all notebooks and all programs of the learning pages
	$(BIN)/python -m pytest -m 'slow or not slow' tests/test_notebooks.py tests/test_pages.py

bench: $(STAMP) ## train the benchmark, 1M steps per run; continues what was stopped
	$(BIN)/python benchmarks/bench.py

learn: $(STAMP) ## measure the return of ALGO on ENV (make learn ALGO=ppo ENV=CartPole-v1)
	$(BIN)/python benchmarks/learn.py $(ALGO) $(ENV)

twins: $(STAMP) ## compare the learning curves of the two backends
	$(BIN)/python benchmarks/twins.py

attack: $(STAMP) ## attack files and processes; fails if a promise in docs/guarantees.md breaks
	$(BIN)/python -m benchmarks.attack --save

soak: $(STAMP) ## kill and resume runs until something differs
	$(BIN)/python benchmarks/soak.py

probe: $(STAMP) ## run all ten algorithms through all probes; none may have a fault
	$(BIN)/python -m spinup.run probe all

zoo: $(STAMP) ## measure which bugs of the zoo the tests, doctor and probe notice
	$(BIN)/python benchmarks/zoo.py

speed: $(STAMP) ## measure steps per second
	$(BIN)/python benchmarks/speed.py

scaling: $(STAMP) ## measure the speedup of a second process and the cost of averaging gradients
	$(BIN)/python benchmarks/scaling.py

peers: $(STAMP) $(PEERS) ## compare training speed with Stable-Baselines3 and SBX
	$(BIN)/python benchmarks/peers.py

# A separate virtual environment; packages that both use have the versions in constraints.txt.
$(PEERS): benchmarks/peers.txt constraints.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet -c constraints.txt -r benchmarks/peers.txt
	touch $@

clean: ## remove build files and caches; keeps .venv and data
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find spinup tests -name __pycache__ -type d -prune -exec rm -rf {} +
