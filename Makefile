# Every target sets up what it needs in .venv, on a machine with Python 3.11 or newer.
#
#   make demo     runs experiments/quickstart.yaml and writes its report
#   make picture  the report as docs/images/report.png, with chromium
#   make check    lint, types, and one claim of each room: half a minute on two cores
#   make test     lint, types, `make sanitize`, and every kind of claim: a quarter of an hour on two cores
#   make night    everything, campaigns over random programs and the whole zoo included
#   make sanitize the C extensions with AddressSanitizer and UndefinedBehaviorSanitizer, under the tests that compare them
#   make wheel    dist/*.whl with the C engine; of Linux, for glibc as old as the built code allows
#   make sdist    dist/*.tar.gz
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CHROMIUM ?= chromium
# Small files of tests, of each room.
CHECK := tests/workloads/test_loopnest.py tests/workloads/test_onnx_import.py tests/fusion/test_plan.py \
	tests/fusion/dnnfusion/test_mapping.py tests/hw_models/test_loading.py tests/hw_models/test_sharing.py \
	tests/hw_models/cpu/test_machine.py tests/hw_models/dsa/test_machine.py tests/hw_models/gpu/test_machine.py \
	tests/scheduler/test_policy.py tests/scheduler/cpu/test_passes.py tests/scheduler/dsa/lower/test_program.py \
	tests/scheduler/gpu/test_blocks.py tests/tuner/test_cores.py tests/experiments/test_config.py \
	tests/experiments/test_layers.py tests/test_tiers.py
TESTS := $(BIN)/python -m pytest -n 2 --dist worksteal
# By day, a part of each campaign.
BY_DAY = $(if $(filter night,$(DSASCAPE_TESTS)),,-m "not night")
# Tests start hundreds of processes: each would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo picture check test night sanitize lint bench docs wheel sdist clean

demo: $(VENV)/.installed
	$(BIN)/dsascape run experiments/quickstart.yaml --out out/quickstart
	@echo "Open the report: out/quickstart/report.html"

picture: demo
	$(CHROMIUM) --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1200,1460 \
		--screenshot=docs/images/report.png "file://$(abspath out/quickstart/report.html)"

check: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest -n 2 -m "not night" $(CHECK)

test: $(VENV)/.installed-dev lint sanitize
	mkdir -p out
	$(TESTS) $(BY_DAY) --junit-xml out/tests.xml

night: export DSASCAPE_TESTS := night
night: $(VENV)/.installed-dev lint sanitize
	$(TESTS) $(BY_DAY)

# A path where gcc has the sanitizer's library. libstdc++ has to be there before ONNX loads it. PYTHONMALLOC=malloc:
# columns from Python are checked as well.
SANITIZED := out/sanitized
LIBASAN := $(if $(shell command -v gcc),$(filter /%,$(shell gcc -print-file-name=libasan.so)))
PRELOADED = $(LIBASAN) $$(gcc -print-file-name=libstdc++.so)
IN_SANITIZED = LD_PRELOAD="$(PRELOADED)" ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	PYTHONPATH="$(abspath $(SANITIZED)/lib)" $(BIN)/python
SANITIZE := tests/hw_models/test_engines.py tests/test_in_c.py tests/scheduler/dsa/tiling/test_tiles_in_c.py \
	tests/scheduler/dsa/lower/test_prefetch.py

sanitize: $(VENV)/.installed-dev
ifeq ($(LIBASAN),)
	@echo "C extensions are not run with sanitizers: gcc with libasan is not installed."
else
	DSASCAPE_BUILD=sanitized CC=gcc $(BIN)/python setup.py -q build --build-base $(SANITIZED) --build-lib $(SANITIZED)/lib
	$(IN_SANITIZED) -c "from dsascape.hw_models.in_c import handler; assert '$(SANITIZED)/lib/' in handler.__file__"
	$(IN_SANITIZED) -m pytest -n 0 $(BY_DAY) -o pythonpath=$(SANITIZED)/lib $(SANITIZE)
endif

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

bench: $(VENV)/.installed-dev
	$(BIN)/python benchmarks/simulator_speed.py
	$(BIN)/python -m benchmarks.sweep_speed
	$(BIN)/python -m benchmarks.large_sweep
	$(BIN)/python -m benchmarks.planning_speed

# A wheel is built of the source archive: nothing of the working tree that is not in it gets into the wheel.
sdist: $(VENV)/.installed-release
	rm -rf src/*.egg-info
	$(BIN)/python -m build --sdist --outdir dist

wheel: $(VENV)/.installed-release
	rm -rf src/*.egg-info dist/built
	$(BIN)/python -m build --outdir dist/built
	if [ "$$(uname)" = Linux ]; then PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/built/*.whl; \
	else cp dist/built/*.whl dist; fi

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

$(VENV)/.installed-release: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[release]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/bin/python pyproject.toml $(IN_C)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) out build dist src/*.egg-info hw_models/in_c/*.so scheduler/in_c/*.so
