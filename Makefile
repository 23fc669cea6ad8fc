# `make demo` and `make test` set up everything they need, once, in .venv.
# Another Python beside it: make smoke PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

UNUSED := tests|pip|setuptools|pkg_resources|mypy|mypyc|selenium|trio|pygments|fontTools

.PHONY: demo docs release test test-all pytest smoke lint style types bench kills fuzz calibration mutants paper test-gradients validators clean

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# uv takes a quarter of the time of pip, which serves where uv cannot be had.
	@{ $(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[test]'; } \
		2>/dev/null || $(PIP) --no-compile --editable '.[test]'
	@# All cores compile, but for libraries of which little or nothing is imported.
	@$(BIN)/python -m compileall -qq -j 0 -x '/($(UNUSED))/' $(VENV)/lib || true
	@touch $(READY)

demo: $(READY)
	@$(BIN)/outtrees demo --run

# The site, in docs/_build/html: tutorials are run, warnings are errors, links within it are checked.
$(VENV)/docs-ready: $(READY)
	@{ $(BIN)/uv pip install --quiet --python $(BIN)/python --editable '.[docs]'; } \
		2>/dev/null || $(PIP) --no-compile --editable '.[docs]'
	@touch $@

docs: $(VENV)/docs-ready
	@$(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	@echo "site: docs/_build/html/index.html"

# sdist and wheel, and the wheel tested in clean environments; nothing is uploaded.
release: $(READY)
	@$(PIP) build
	@$(BIN)/python .ci/release

lint: style types

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# One process per core, each with one BLAS thread: threads of several processes would only wait for
# each other. Each process begins with a stretch of its own, so that what tests of a file share is made
# once, and takes over from the other when it is done.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --quiet --numprocesses auto --dist worksteal

# mypy takes one core and leaves the other idle: it runs beside the tests.
test: style
	@$(MAKE) --no-print-directory --jobs 2 types pytest

pytest: $(READY)
	$(PYTEST)

# The long tests too.
test-all: lint
	$(PYTEST) -m "slow or not slow"

# With PyTorch and JAX, which `make test` does without: their tests are skipped there.
test-gradients: $(READY)
	$(PIP) --editable '.[torch,jax]'
	$(PYTEST) -m "slow or not slow" tests/trees/test_gradients.py src/outtrees/torch.py src/outtrees/jax.py

# What shows soonest that a Python or a library does not fit: every example, model files, the README.
smoke: $(READY)
	$(PYTEST) src/outtrees tests/io tests/test_readme.py tests/test_old_names.py

# How often promises of supports and intervals are kept, in simulations.
calibration: $(READY)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/calibration_table.py

# Formats of other tools, read by those tools' own libraries and validators. `make test` runs most; augur
# and treedata want an older pandas, so they live in an environment of their own. Microreact's parsers
# need npm.
VALIDATORS := $(VENV)-formats
validators: $(READY)
	@test -x $(VALIDATORS)/bin/python || $(PYTHON) -m venv $(VALIDATORS)
	@{ $(BIN)/uv pip install --quiet --python $(VALIDATORS)/bin/python --editable '.[test,validators]'; } \
		2>/dev/null || $(VALIDATORS)/bin/python -m pip install --quiet --editable '.[test,validators]'
	@! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --ignore-scripts \
		--legacy-peer-deps --prefix $(VALIDATORS)/npm papaparse@5 @phylocanvas/phylocanvas.gl@1
	@PATH="$(abspath $(VALIDATORS))/bin:$$PATH" OUTTREES_NODE_MODULES="$(abspath $(VALIDATORS))/npm/node_modules" \
		OPENBLAS_NUM_THREADS=1 $(VALIDATORS)/bin/python -m pytest --quiet -rA --no-header tests/io/test_formats.py \
		>$(VALIDATORS)/log; status=$$?; grep -E '^(PASSED|FAILED|SKIPPED|ERROR|E  )|passed|failed' $(VALIDATORS)/log; exit $$status

# Edits of the code that no test notices.
mutants: $(READY)
	$(BIN)/python benchmarks/mutants.py

bench: $(READY)
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/density_cost.py

# Made-up cases: files, names, command lines, and whatever else is in tests/fuzz. SECONDS for each test.
SECONDS ?= 60
fuzz: $(READY)
	OPENBLAS_NUM_THREADS=1 OUTTREES_FUZZ_SECONDS=$(SECONDS) $(BIN)/pytest --quiet tests/fuzz

# Processes killed at every write and at random moments, 5,000 times and more. Some minutes.
kills: $(READY)
	OPENBLAS_NUM_THREADS=1 PYTHONPATH=tests $(BIN)/python tests/kills.py --long

# The paper's figures and tables into reproduced/; what is finished there is not run again.
paper: $(READY)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m paper all --jobs 2

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .pytest_cache .ruff_cache
