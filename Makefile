# `make demo` and `make test` set up everything they need, once, in .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test test-all lint bench paper clean

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[test]'
	@# pip would compile one file after the other, and what libraries bring to test themselves.
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests/' .venv/lib || true
	@touch $(READY)

demo: $(READY)
	@$(BIN)/python examples/demo.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# One process per core, each with one BLAS thread: threads of several processes would only wait for
# each other. Each process begins with a stretch of its own, so that what tests of a file share is made
# once, and takes over from the other when it is done.
PYTEST := OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --quiet --numprocesses auto --dist worksteal

test: lint
	$(PYTEST)

# The long tests too.
test-all: lint
	$(PYTEST) -m "slow or not slow"

bench: $(READY)
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/density_cost.py

# The paper's figures and tables into reproduced/; what is finished there is not run again.
paper: $(READY)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m paper all --jobs 2

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache
