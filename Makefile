# Daily habits. `make run` and `make test` set up what they need and no more; nothing else has to be called first.
#   make run     measure this machine (inventory.yaml) and show the matrix
#   make test    run the tests
#   make setup   set up all of it; the command then is .venv/bin/fleet
#   make check   formats, lint and types, as CI asks for them
#   make format  put the formats right
#   make describe write anew what the agent says of benchmarks and options (fleet/model/benchmarks.json, fleet/plan/options.json)
#   make docs    make the documentation a site, in build/site
#   make agents  build the agents that a wheel carries, for hosts without a compiler
#   make lab     make the lab of `fleet demo` anew (fleet/demo/lab.tar.xz)
#   make wheel   build a wheel that carries them and the manual page, in dist/
#   make release put a tagged version into dist/: wheel, sdist, static agents, checksums
#   make lock    write the constraints*.txt anew from pyproject.toml (needs uv)
#   make clean   remove what was made here, but never results/

PYTHON ?= python3
BIN := .venv/bin
UV ?= uv
PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-compile --progress-bar off
# Of pip's many lines those about what takes long.
SAY := sed -un -e 's/^ *Downloading \([^-]*\)-.*\((.* MB)\)$$/  \1 \2/p' -e 's/^Installing collected .*/Unpacking them/p'
# A sign of life while a step of setting up goes on; it holds no output open when the step has ended.
BEAT := { while sleep 8 >/dev/null 2>&1; do echo "  still at it"; done; } & trap "kill $$!" EXIT;
# What measuring and showing do without; unpacking it takes as long as all the rest.
LATER := ast-serialize contourpy fonttools hypothesis jinja2 kiwisolver librt markupsafe matplotlib mypy pandas-stubs pillow ruff scipy typing-extensions
C_SOURCES := $(wildcard agent/*.[ch] agent/*/*.[ch] benchmarks/*.[ch])
SCRIPTS := $(wildcard .ci/*) $(wildcard tests/hosts/*/*.sh)

.PHONY: run test check format lock clean setup agents wheel release describe lab docs

run: .venv/measures
	@echo "Measuring this machine"
	$(BIN)/fleet run
	$(BIN)/fleet show
	@test -e .venv/complete || echo "make setup installs the rest: what comparisons, reports and tests need"

test: setup
	@echo "Collecting the tests and making what they share; the first results within a minute"
	$(BIN)/pytest

check: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	@if command -v clang-format; then clang-format --dry-run -Werror $(C_SOURCES); else echo "left out: no clang-format"; fi
	@if command -v shellcheck; then shellcheck $(SCRIPTS); else echo "left out: no shellcheck"; fi

format: setup
	$(BIN)/ruff format
	$(BIN)/ruff check --fix
	clang-format -i $(C_SOURCES)

setup: .venv/complete

.venv/complete: .venv/measures
	@echo "Setting up, once: the packages for reports, comparisons and tests"
	@$(BEAT) { $(PIP) --require-hashes -r constraints.txt && touch .venv/installed; } | $(SAY); test -e .venv/installed
	@touch $@

# Compiles what a session imports. Compiling all that is installed would take longer than everything else here.
.venv/measures: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "fleet needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' \
		|| { echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Setting up, once: a virtual environment in .venv"
	@$(BEAT) $(PYTHON) -m venv .venv
	@rm -f .venv/installed
	@awk -v later="$(LATER)" 'BEGIN { n = split(later, l, " "); for (i = 1; i <= n; i++) skip[l[i]] = 1 } \
		/^[a-z]/ { split($$0, name, "=="); kept = !(name[1] in skip) } kept' constraints.txt > .venv/first.txt
	@echo "Setting up, once: the packages that measuring needs"
	@$(BEAT) { $(PIP) --no-deps --require-hashes -r .venv/first.txt && touch .venv/installed; } | $(SAY); test -e .venv/installed
	@echo "Setting up, once: fleet itself"
	@$(BEAT) $(PIP) -q --no-deps --no-build-isolation -e .
	@env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -c 'import fleet.cli, fleet.session.runner, fleet.remote.connect, pyarrow.parquet'
	@rm .venv/installed
	@touch $@

lab: setup
	$(BIN)/python -m tests.lab.make

describe: setup
	$(BIN)/python -m tests.native.describe

docs: setup
	$(PIP) -q --no-deps --require-hashes -r constraints-docs.txt
	$(BIN)/mkdocs build --strict

# FROM: a clone of util-linux, which has the names of Arm's cores.
arm-cores: setup
	$(BIN)/python -m tests.facts.arm_cores $(FROM)

# The bytes depend on the release of zig, so it is pinned.
# AGENTS: the targets, such as linux-aarch64; all by default.
agents: setup
	@awk '/^[a-z]/ { kept = /^ziglang==/ } kept' constraints-slow.txt > .venv/zig.txt
	$(PIP) -q --no-deps --require-hashes -r .venv/zig.txt
	$(BIN)/python build_agents.py agent/build $(AGENTS)

wheel: agents
	mkdir -p build
	$(BIN)/fleet man > build/fleet.1
	$(BIN)/python -m hatchling build -t wheel -d dist

release: setup
	$(BIN)/python release.py
	rm -rf dist
	$(MAKE) wheel
	$(BIN)/python -m hatchling build -t sdist -d dist
	$(BIN)/python release.py dist

lock:
	$(UV) pip compile pyproject.toml --extra report --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -o constraints.txt
	$(UV) pip compile pyproject.toml --all-extras --group slow --universal --python-version 3.11 \
		-c constraints.txt --generate-hashes --no-emit-index-url --no-header -o constraints-slow.txt
	$(UV) pip compile --group docs --universal --python-version 3.11 \
		-c constraints.txt --generate-hashes --no-emit-index-url --no-header -o constraints-docs.txt

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist agent/build agent/fleet-agent
	find fleet tests -name __pycache__ -prune -exec rm -rf {} +
