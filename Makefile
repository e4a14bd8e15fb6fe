# `make demo` and `make test` set up everything they need in .venv, on a machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench docs clean

demo: $(VENV)/.installed
	$(BIN)/dsascape run experiments/quickstart.yaml --out out/quickstart
	@echo "Open the report: out/quickstart/report.html"

test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/simulator_speed.py
	$(BIN)/python -m benchmarks.sweep_speed
	$(BIN)/python -m benchmarks.large_sweep
	$(BIN)/python -m benchmarks.planning_speed

# The site, to read in out/site/index.html without a network.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open the documentation: out/site/index.html"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Written in C, and built where a C compiler is found.
IN_C := setup.py $(wildcard hw_models/in_c/*.[ch] scheduler/in_c/*.[ch])

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml $(IN_C)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml $(IN_C)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(VENV)/bin/python pyproject.toml $(IN_C)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) out build *.egg-info hw_models/in_c/*.so scheduler/in_c/*.so
