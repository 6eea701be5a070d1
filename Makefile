# make train    train RECIPE, with ARGS
# make quick    tests of layers, recipes, plugin loading and what the change touches: under 90 seconds, no C++
# make test     all tests but the slow ones
# make soak     the slow tests: trainings under load, servers, many processes
# make check    style, types and layers
# make bench    the benchmarks
# make docs     the documentation, in build/docs
# make pages    what the pages of the documentation show as printed, printed anew
# make readme   the same for the README
# make clean    remove the environment and all caches
#
# Needs Python 3.11 or newer and make; everything else is set up in .venv by the first target that is run.

PYTHON ?= python3
RECIPE ?= recipes/pronounce.yaml
WORKERS ?= 2
ARGS ?=

BIN := .venv/bin
READY := .venv/.ready
PIP := $(BIN)/python -m pip --quiet --quiet --disable-pip-version-check

.PHONY: help train quick test check bench soak docs pages readme browser clean
.DELETE_ON_ERROR:

train: $(READY)
	$(BIN)/kit train $(RECIPE) $(ARGS)

quick: $(READY)
	KIT_NATIVE=0 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --quick $(ARGS)

test: $(READY) browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup $(ARGS)

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

bench: $(READY)
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python "$$file" $(ARGS) || exit 1; done

# The documentation, in build/docs: open build/docs/index.html.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# What the pages show as printed, printed anew; ARGS=docs/concepts/masks.md for one page.
pages: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python docs/fill_pages.py $(ARGS)

readme: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python docs/fill_readme.py

soak: $(READY) browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m slow $(ARGS)

# Pages are tried in a real browser, Debian's chromium. Where it cannot be installed, those tests are skipped, loudly.
browser:
	@if [ -n "$$KIT_BROWSER" ] || command -v chromium >/dev/null || command -v chromium-headless-shell >/dev/null; then exit 0; fi; \
	say() { printf '\n*** The pages are NOT tested in a browser: %s.\n*** Install chromium, or name a browser in KIT_BROWSER.\n\n' "$$1" >&2; exit 0; }; \
	command -v apt-get >/dev/null || say "there is no chromium, and no apt-get to install it with"; \
	if [ "$$(id -u)" = 0 ]; then as=""; elif sudo -n true 2>/dev/null; then as="sudo -n"; else say "there is no chromium, and installing it needs root"; fi; \
	echo "installing chromium, for the tests of the pages"; \
	{ $$as apt-get update -qq && $$as env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -qq -y --no-install-recommends chromium >/dev/null; } || say "apt-get could not install chromium"

help:
	@sed -n 's/^# \(make [a-z]* .*\)/\1/p' Makefile

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
	@$(PIP) install --editable '.[dev,demo,metrics,plots,serve]'
	@touch $@
