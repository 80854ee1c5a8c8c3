# Each target sets up all that it needs; Python 3.11 or later and make are enough.
#
#   make run    compile and run a small network on real images
#   make test   format, lint, types, layers, tests
#   make sweep  the same tests, with all combinations of which `make test` takes a part
#   make fuzz MINUTES=10   random models, hostile files, random functions against engines and NumPy
#   make conformance       the onnx package's tests: as they are, with free dimensions, constants
#
# PYTHON is the interpreter to start from, VENV the environment to make and use.

PYTHON ?= python3
VENV ?= .venv
MINUTES ?= 10
# SEED=n starts there; without it, a run goes on where the last one ended.
SEED ?=

BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --quiet --editable
CHECKED := $(wildcard src tests benchmarks)
LESSONS := $(wildcard examples/*.py examples/*/*.py)

# Tests start many processes, which share the bytecode that the first one writes.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test types tests sweep fuzz conformance train clean

run: $(VENV)/.installed-run
	$(BIN)/python examples/01_digits/run.py

test: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) --jobs 2 --no-print-directory types tests

# Types and layers take one core; they are beside the tests.
types:
	@# Scripts of two lessons may have the same name; by these links each is a module of its own.
	rm -rf $(VENV)/lessons && mkdir -p $(VENV)/lessons
	for script in $(LESSONS); do \
	  ln -s "$$PWD/$$script" $(VENV)/lessons/$$(echo $$script | tr / _); done
	$(BIN)/mypy $(CHECKED) $(VENV)/lessons
	$(BIN)/lint-imports

# All tests of a file run in one process, which makes what they share once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

tests:
	$(PYTEST)

sweep: $(VENV)/.installed-test
	MINICC_SWEEP=all $(PYTEST)

fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tests.generate run --minutes $(MINUTES) $(if $(SEED),--first $(SEED))

conformance: $(VENV)/.installed-test
	$(BIN)/python -m tests.conformance

# Makes the lesson's network anew; its two files are part of the tree.
train: $(VENV)/.installed-train
	$(BIN)/python examples/01_digits/train.py

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'minicc needs Python 3.11 or later: make PYTHON=/path/to/python3.11'; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-run: pyproject.toml | $(BIN)/pip
	$(PIP_INSTALL) .
	@touch $@

$(VENV)/.installed-test: pyproject.toml | $(BIN)/pip
	$(PIP_INSTALL) '.[test]'
	@touch $@ $(VENV)/.installed-run

$(VENV)/.installed-train: pyproject.toml | $(BIN)/pip
	$(PIP_INSTALL) '.[train]'
	@touch $@ $(VENV)/.installed-run
