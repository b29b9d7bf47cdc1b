PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check bench fuzz generate clean

help:
	@echo "make demo      a 2-rank training run with a planted fault, under traceml run"
	@echo "make test      all tests"
	@echo "make check     lint, formatting and types"
	@echo "make bench     what TraceML costs, side by side with the bare loop and its peer"
	@echo "make fuzz      readers of a run's folder against files that nobody would write; SECONDS=600"
	@echo "make generate  everything that is made from something else"
	@echo "make clean     remove what these made"

# grpcio-tools only compiles the schema; an older one, so that the generated code
# runs with every protobuf since 5.29, and without its own idea of which to install.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[torch,dev]"
	$(BIN)/pip install --quiet --no-deps grpcio-tools==1.71.2
	@touch $(READY)

demo: $(READY)
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python examples/demo.py

test: $(READY)
	sh .ci/packages
	$(BIN)/pytest -n 2 -m "not alone" --durations=15
	$(BIN)/pytest -m alone --durations=15

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

# Coverage tells which changes lead further, so no other target needs what it installs.
SECONDS ?= 600
fuzz: $(READY)
	$(BIN)/pip install --quiet "atheris>=3"
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

generate: $(READY)
	$(BIN)/python -m traceml.wire.generate
	$(BIN)/python -m traceml.publish.reference
	$(BIN)/python -m traceml.report.schema
	$(BIN)/python -m traceml.publish.rules.generate
	$(BIN)/python -m traceml.publish.dashboards.generate
	$(BIN)/pytest -q tests/publish/test_golden.py --regenerate

clean:
	rm -rf $(VENV) .bench .fuzz build dist logs compare .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
