# One entry point a chore. `make demo` and `make test` do all the set-up on a fresh Debian machine with Python 3.11.
PYTHON ?= python3
FUZZ_SECONDS ?= 20
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet

# Tests start hundreds of processes; each saves a third of its start when it finds its modules compiled.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick explore check messages golden bench docs clean help

help: ## list the chores
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.core ## a coordinator, three parties, one table through it all; Ctrl-C ends it
	$(BIN)/masquerade demo $(if $(shell test -t 0 && echo terminal),,--once)

# Tests wait for the disk thousands of times (audit logs, ledgers, databases); where memory can hold their files, it does.
test quick: export TMPDIR := $(shell free=$$(df --output=avail /dev/shm 2>/dev/null | tail -1); \
	[ "$${free:-0}" -gt 4000000 ] && echo /dev/shm || echo "$${TMPDIR:-/tmp}")

# Tests wait for processes and sockets half of their time: four workers keep two cores busy.
test: $(VENV)/.dev .postgres .chromium ## run all tests
	$(BIN)/pytest -n 4 --dist worksteal

quick: $(VENV)/.dev ## run the tests without processes, databases, browsers and whole sessions, on few examples
	MASQUERADE_TESTS=quick $(BIN)/pytest -n 2 --dist worksteal -q -m "not system and not sessions"

explore: $(VENV)/.fuzz .postgres ## run the properties on new examples, and fuzz every decoder (FUZZ_SECONDS=20 for each)
	HYPOTHESIS_PROFILE=exploring $(BIN)/pytest -n 2 --dist worksteal -m hypothesis
	$(BIN)/python tests/fuzz/explore.py --seconds $(FUZZ_SECONDS)

check: $(VENV)/.dev ## format, lint, types, import arrows
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

messages: $(VENV)/.dev ## freeze what parties tell each other (tests/leakage/messages.toml), after a message changed
	PYTHONPATH=src:tests $(BIN)/python -m leakage.freeze

golden: $(VENV)/.dev ## freeze what commands answer and parties agree on (tests/golden), after that changed
	PYTHONPATH=src:tests $(BIN)/python -m golden.freeze

bench: $(VENV)/.bench $(VENV)-anjana/.ready ## rerun every experiment (slow); one alone: masquerade bench NAME
	$(BIN)/masquerade bench --all

docs: $(VENV)/.docs ## write the generated reference pages, and build the documentation into site/
	$(BIN)/python docs/generate.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove everything that the other chores made
	rm -rf $(VENV) $(VENV)-anjana site masquerade-demo build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz .import_linter_cache

# --- set-up ---

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'pip>=25.1'

$(VENV)/.core: pyproject.toml | $(BIN)/pip
	$(PIP) install --editable '.[all]'
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) install --group test --group check
	@touch $@

$(VENV)/.fuzz: $(VENV)/.dev
	$(PIP) install --group fuzz
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) install --group bench
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	$(PIP) install --group docs
	@touch $@

# The rival of benchmarks/peers.py pins old releases of numpy and pandas, so it lives in an environment of its own.
$(VENV)-anjana/.ready:
	$(PYTHON) -m venv $(VENV)-anjana
	$(VENV)-anjana/bin/pip --disable-pip-version-check --quiet install anjana==1.2.3 qidlearninglib==0.0.6
	@touch $@

# The tests start a PostgreSQL of their own; here it is only installed, when it is missing.
.PHONY: .postgres
.postgres:
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null 2>&1 || \
	  { echo "installing PostgreSQL for the tests"; apt-get update -qq && apt-get install -y -qq postgresql; }

# The console is tested in a real browser; Playwright drives the one that is installed.
.PHONY: .chromium
.chromium:
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || \
	  command -v google-chrome >/dev/null 2>&1 || \
	  { echo "installing Chromium for the tests"; apt-get update -qq && apt-get install -y -qq chromium; }
