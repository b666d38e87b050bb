# Everything runs in .venv, which the first target makes; a second call reuses it.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# The exact version first: it can then come as a CPU wheel of about 200 MB from a local folder or a CPU
# index, and the range "torch>=2.5" in pyproject.toml is met and asks for nothing more. The range alone
# would take the newest release, which on Linux brings several GB of CUDA libraries.
TORCH ?= torch==2.13.0
# Test processes; each runs torch on one thread.
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
# A file's tests stay in one process: its servers, browsers and models are started once.
PYTEST = OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile
PIP := $(BIN)/pip --disable-pip-version-check --quiet
RUN_INSTALLED := $(VENV)/run.installed
DEV_INSTALLED := $(VENV)/dev.installed
# What an installation is made of; a change of Python files needs no new one.
BUILT_FROM := pyproject.toml CMakeLists.txt $(shell find native -path native/tests -prune -o -type f ! -name '*.md' -print)

.PHONY: help demo test tests slow compiled processors faults fuzz soak lint format docs serve-docs bench page sdist wheel clean

help:
	@echo "make demo    install into .venv and translate with the bundled model"
	@echo "make test    lint, types, import contracts, docs, the tests but the slow ones"
	@echo "make slow    the slow tests: whole trainings, kills, packages"
	@echo "make compiled    the kernels built anew: other compilers, sanitizers, Arm"
	@echo "make processors  the numerical tests with the kernels that other processors get"
	@echo "make faults  kill, fill disks, start two at once: COUNT=100 times; takes about an hour"
	@echo "make fuzz    hostile files and texts, COUNT of each or SECONDS long"
	@echo "make soak    mixed calls from several threads: COUNT=100000 sentences; what is resident must stay level"
	@echo "make lint    ruff, mypy and the import contracts"
	@echo "make bench   the benchmarks"
	@echo "make page    build the server's page from page/; needs node and npm"
	@echo "make sdist   what a release uploads as its source, into dist/"
	@echo "make wheel   that, and a wheel for this machine built from it"
	@echo "make docs    build the documentation into site/"
	@echo "make clean   remove .venv and everything built"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no python3; install it, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit("error: Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else 0'
	$(PYTHON) -m venv $(VENV)

$(RUN_INSTALLED): $(BUILT_FROM) | $(BIN)/python
	$(PIP) install "$(TORCH)"
	$(PIP) install --editable ".[train]"
	@touch $@

$(DEV_INSTALLED): $(BUILT_FROM) | $(BIN)/python
	$(PIP) install "$(TORCH)"
	$(PIP) install --editable ".[dev]"
	@touch $@ $(RUN_INSTALLED)

demo: $(RUN_INSTALLED)
	@echo '$$ uwaga translate "I want to buy a car."'
	@$(BIN)/uwaga translate "I want to buy a car."
	@echo '$$ uwaga translate < docs/sample.en'
	@$(BIN)/uwaga translate < docs/sample.en

test: lint docs tests

tests: $(DEV_INSTALLED)
	$(PYTEST) -m "not slow and not compiled" $(PYTEST_ARGS)

slow: $(DEV_INSTALLED)
	$(PYTEST) -m "slow and not compiled" $(PYTEST_ARGS)

# The kernels and the engine built anew: with every compiler, with sanitizers, for Arm under emulation.
compiled: $(DEV_INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) -m compiled

# Torch and oneDNN choose kernels by the processor, and so does the engine: hold them to those of others.
NUMERICAL := $(PYTEST) -m "numerical and not slow"

processors: $(DEV_INSTALLED)
	ATEN_CPU_CAPABILITY=default $(NUMERICAL)
	ATEN_CPU_CAPABILITY=avx2 $(NUMERICAL)
	ONEDNN_MAX_CPU_ISA=AVX2 $(NUMERICAL)
	for isa in $$($(BIN)/python -c "from uwaga.engine.cpu import usable; print(*usable())"); do \
		UWAGA_ISA=$$isa $(NUMERICAL) tests/engine || exit 1; \
	done

# How often each verb is killed, COUNT=100 where nothing is said; full disks and pairs are a fifth of it.
faults: $(DEV_INSTALLED)
	$(BIN)/python tests/faults.py --count $(or $(COUNT),100)

# Mutated model files and calls with random texts and options, COUNT=20000 of each or until SECONDS=3600 are over.
fuzz: $(DEV_INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/support/fuzz.py --count $(or $(COUNT),20000) --seconds $(or $(SECONDS),3600)

# Mixed calls from several threads; what is resident must stay level.
soak: $(DEV_INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/soak.py --count $(or $(COUNT),100000)

lint: $(DEV_INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DEV_INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

serve-docs: $(DEV_INSTALLED)
	$(BIN)/mkdocs serve

bench: $(DEV_INSTALLED)
	@for script in $(wildcard benchmarks/*.py); do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

# The page of `uwaga serve`: types, laws of its functions, and its files, which are committed.
page: page/node_modules
	npm --prefix page run --silent check
	npm --prefix page run --silent test
	npm --prefix page run --silent build

page/node_modules: page/package.json page/package-lock.json
	npm --prefix page ci --silent
	@touch $@

# Without isolation: built with the tools in .venv, which are those that pyproject.toml asks for.
sdist: $(DEV_INSTALLED)
	$(BIN)/python -m build --no-isolation --sdist --outdir dist

wheel: $(DEV_INSTALLED)
	$(BIN)/python -m build --no-isolation --outdir dist

clean:
	rm -rf $(VENV) build dist site page/build page/node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
