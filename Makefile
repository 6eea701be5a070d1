# make train · make test · make check · make bench · make soak · make clean
# Needs Python 3.11 or newer and make; everything else is set up in .venv by the first target that is run.

PYTHON ?= python3
RECIPE ?= recipes/pronounce.yaml
WORKERS ?= 2
ARGS ?=

BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check

.PHONY: train test check bench soak clean
.DELETE_ON_ERROR:

train: $(READY)
	$(BIN)/kit train $(RECIPE) $(ARGS)

test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup $(ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

bench: $(READY)
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file" $(ARGS) || exit 1; done

soak: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m slow $(ARGS)

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Redone when pyproject.toml changes: an entry point is seen only after an install.
# torch comes first and exactly: resolved from a range it can arrive as another build, gigabytes larger.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("Kitformer needs Python 3.11 or newer; $(PYTHON) is %d.%d. Name another with: make PYTHON=python3.11" % v[:2])'
	@test -x $(BIN)/python || { echo "creating .venv"; $(PYTHON) -m venv .venv; }
	@echo "installing into .venv (the first time takes a few minutes)"
	@$(PIP) install torch==2.13.0
	@$(PIP) install --editable '.[dev,demo,metrics,plots]'
	@touch $@

readme: .venv/.ready ## fill the README's console blocks with what the commands print now
	.venv/bin/python docs/fill_readme.py
