# Every target sets up what it needs: a virtual environment in .venv, with the package and its tools.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.surebayes-installed

.PHONY: setup demo test test-slow check bench clean

setup: $(STAMP)

$(STAMP): pyproject.toml setup.py $(wildcard src/surebayes/*.c)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/python examples/compare_classifiers.py

test: setup
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: setup
	$(BIN)/python -m pytest -n 2 -m slow

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m cogapp --check docs/*.md README.md

bench: setup
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info src/surebayes/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
