PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint kernels bench soak docs web clean

# Two installations in one folder: what the program needs, and with it what the tests need.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/pip install --quiet -c constraints.txt -e '.[docs]'
	touch $@

demo: $(VENV)/.installed  ## train, evaluate and draw a small world on this machine's CPU
	$(BIN)/slipstream demo

lint: $(VENV)/.installed-dev  ## ruff, mypy, the size of every folder, and which folder may import which
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/python tools/house.py
	$(BIN)/pytest tests/test_layers.py
	$(BIN)/mypy

test: export PYTHONDONTWRITEBYTECODE =  # the tests start many processes: none compiles the modules again
test: $(VENV)/.installed-dev  ## lint, types and all tests but the soak, two at a time; those of the viewer's page need a browser
	@$(MAKE) --no-print-directory -j 2 lint kernels
	@$(BIN)/python tests/helpers/browser.py || true
	$(BIN)/pytest -n 2 --dist worksteal

kernels: $(VENV)/.installed-dev  ## compile the native code of the tests, beside the linters
	@$(BIN)/python tests/helpers/kernels.py

bench: $(VENV)/.installed-dev  ## the benchmark tables (minutes; keep the machine quiet)
	$(BIN)/python benchmarks/env.py
	$(BIN)/python benchmarks/collector.py
	$(BIN)/python benchmarks/checkpoint.py
	$(BIN)/python benchmarks/replay.py
	$(BIN)/python benchmarks/rollouts.py
	$(BIN)/python benchmarks/viewer.py

web:  ## build the page of the viewer from web/ into slipstream/viewer/static/ (needs npm)
	cd web && npm ci --no-audit --no-fund && npm run build

docs: $(VENV)/.installed-docs  ## the documentation site, with its links checked, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "open build/site/index.html; with a search: $(BIN)/mkdocs serve"

soak: $(VENV)/.installed-dev  ## the fault and concurrency tests at full count
	$(BIN)/pytest -m soak

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
