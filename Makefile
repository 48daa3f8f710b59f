# Everything a developer or CI runs. Needs Python (3.11 is what we test with) and nothing else:
# each target first makes .venv and installs what it needs.

SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.installed
PEERS := .venv-peers/.installed
WORKERS ?= 2
ALGO ?= ppo
ENV ?= CartPole-v1

.PHONY: help .venv train test lint types format learn soak speed scaling peers clean

help: ## show this list
	@grep -E '^[.a-z]+:.*## ' Makefile | sed -E 's/^([.a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 18

.venv: $(STAMP) ## make the virtual environment, or bring it up to date

# The stamp comes last, so that an install that broke off is done again.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev,mpi,mujoco,box2d,video,track,cluster,export]'
	touch $@

train: $(STAMP) ## train PPO on CartPole; leaves a learning curve and a clip of the agent
	$(BIN)/python -m spinup.quickstart

test: lint types ## lint, check types and run the test suite
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

lint: $(STAMP) ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## check types
	$(BIN)/mypy

format: $(STAMP) ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

learn: $(STAMP) ## measure what ALGO reaches on ENV (make learn ALGO=ppo ENV=CartPole-v1)
	$(BIN)/python benchmarks/learn.py $(ALGO) $(ENV)

soak: $(STAMP) ## kill and resume runs until something differs
	$(BIN)/python benchmarks/soak.py

speed: $(STAMP) ## measure steps a second
	$(BIN)/python benchmarks/speed.py

scaling: $(STAMP) ## measure what a second process brings and what averaging gradients costs
	$(BIN)/python benchmarks/scaling.py

peers: $(STAMP) $(PEERS) ## measure training speed beside Stable-Baselines3 and SBX
	$(BIN)/python benchmarks/peers.py

# An environment of their own; what both sides use has the versions of ours.
$(PEERS): benchmarks/peers.txt constraints.txt
	test -x .venv-peers/bin/python || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet -c constraints.txt -r benchmarks/peers.txt
	touch $@

clean: ## remove what was built or cached; keeps .venv and data
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find spinup tests -name __pycache__ -type d -prune -exec rm -rf {} +
