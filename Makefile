# `make demo` and `make test` set up everything they need, once, in .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test test-all lint bench clean

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $(READY)

demo: $(READY)
	@$(BIN)/python examples/demo.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest --quiet

# The long tests too.
test-all: lint
	$(BIN)/pytest --quiet -m "slow or not slow"

bench: $(READY)
	$(BIN)/python benchmarks/engine.py

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache
