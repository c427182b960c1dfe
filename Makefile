PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Threads that spin while they wait make a shared machine many times slower.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo test lint bench soak install clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

demo: install  ## train, evaluate and draw a small world on this machine's CPU (about 4 minutes)
	$(BIN)/slipstream demo

lint: install  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint  ## lint, types and all tests but the soak
	$(BIN)/pytest

bench: install  ## the benchmark tables (minutes; keep the machine quiet)
	$(BIN)/slipstream bench env
	$(BIN)/python benchmarks/collector.py

soak: install  ## the fault and concurrency tests at full count
	$(BIN)/pytest -m soak

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
