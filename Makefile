# `make demo` and `make test` need GNU make, a POSIX shell, Python 3.11 or newer and the package index, nothing else.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
# One format of each idea, as `spmvbench run` takes them without a GPU, and the figures that any run has.
DEMO_FORMATS ?= $(shell tr '\n' , < configs/formats.txt | sed 's/,$$//')
DEMO_FIGURES ?= coverage,ratios,profile,gflops,speedup,speedup-mean,winners,bytes,conversion,breakeven,roofline

BIN = $(VENV)/bin
CPP_FILES = find kernels spmvbench tests docs/example -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.hpp'
# Python compiles what it imports, when it does; compiling all that was installed takes half of the installation's time.
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile

.PHONY: help demo test check test-all audit gpu measure docs site models tables clean

help:
	@echo "make demo    install into $(VENV), run a small set of matrices, write tables and figures to results/demo"
	@echo "make test    install into $(VENV), check style and types, run the tests that tell that it works"
	@echo "make test-all  the same with every test that needs no GPU, once what they can use is installed: Chromium, Clang, LLVM, Poppler (apt-get)"
	@echo "make audit   look up known vulnerabilities of what is installed in $(VENV), with pip-audit and a service of the network"
	@echo "make gpu     install into $(VENV), run the tests that need a GPU"
	@echo "make measure CARD=h200  install into $(VENV), measure all published runs on this machine's H200, for SECONDS=540; again: go on"
	@echo "make docs    rewrite the pages of formats in docs/formats, and build the documentation into site/"
	@echo "make site    the same, and the reports of the runs in results/published, into site/runs"
	@echo "make models  train the advice and what auto chooses by anew, and write their pages; RUNS='results/published/...' adds runs"
	@echo "make tables  write the tables and pictures of README.md and docs/ anew from the rows in results/published"
	@echo "make clean   remove $(VENV) and the demo's results"
	@echo "PYTHON=python3.12 chooses the interpreter, VENV=DIR the environment, PYTEST_ARGS='-k nvrtc' the tests, DEMO_FORMATS=all all formats."

# --emulated lets the report draw times of a machine without a GPU; they carry the word across every figure.
demo: $(VENV)/.demo
	$(BIN)/spmvbench run --set demo --formats '$(DEMO_FORMATS)' --run demo
	$(BIN)/spmvbench report demo --figures '$(DEMO_FIGURES)' --emulated

# What tells that it works. MARKS='not gpu' chooses everything; pyproject.toml leaves out what is slow.
MARKS ?=
test: check
	$(BIN)/python -m pytest $(if $(MARKS),-m '$(MARKS)') $(PYTEST_ARGS)

# What tests import is compiled by one process beside mypy; the tests' processes would each compile all of it.
check: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(CPP_FILES) | xargs $(BIN)/clang-format --dry-run --Werror
	$(BIN)/mypy spmvbench docs/example/csr_*.py & types=$$!; \
	[ -e $(VENV)/.compiled ] || { $(BIN)/python -m pytest -m 'not gpu' -n 0 --collect-only -q >/dev/null && touch $(VENV)/.compiled; }; \
	wait $$types

# pip-audit has an environment of its own: what it needs is not audited as if it were needed here.
audit: $(VENV)/.dev
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	$(VENV)/audit/bin/pip-audit --vulnerability-service osv --skip-editable --progress-spinner off \
	  --path "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"

# What tests can do with and cannot be had is no fault: those tests say at the end that they were not run.
test-all:
	@missing=; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || missing="$$missing chromium"; \
	command -v clang++ >/dev/null || missing="$$missing clang"; \
	command -v pdffonts >/dev/null || missing="$$missing poppler-utils"; \
	[ -z "$$missing" ] || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends $$missing >/dev/null; } || \
	  echo "Not installed:$$missing" >&2
	$(MAKE) test MARKS='not gpu'

# Many at a time: most of a test's time is a compiler's. What times kernels does so by itself, once the rest is done.
GPU_TESTS ?= 8
gpu: $(VENV)/.demo $(VENV)/.dev
	$(BIN)/python -m pytest -m 'gpu and not timing' -n $(GPU_TESTS) --durations 5 $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m 'gpu and timing' -n 0 --durations 5 $(PYTEST_ARGS)

# One piece of SECONDS at a time; 0: all is measured, 3: the same command continues. make reports either as its own 2,
# so the command prints what is left. MEASURE='python3 -m ...' where packages are there without an environment.
CARD ?=
SECONDS ?= 540
RESULTS ?= results
DEVICE ?= cuda:0
STEPS ?= configs/measure.toml
MEASURE ?= $(BIN)/python -m spmvbench.publishing measure
measure: $(if $(findstring $(BIN),$(MEASURE)),$(VENV)/.demo)
	@[ -n "$(CARD)" ] || { echo "name the card: make measure CARD=h200" >&2; exit 2; }
	$(MEASURE) '$(CARD)' --steps '$(STEPS)' --seconds $(SECONDS) --results '$(RESULTS)' --device $(DEVICE) $(MEASURE_ARGS)

docs: $(VENV)/.dev
	$(BIN)/python -m spmvbench.publishing format_pages docs/formats
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Every published run's page by the command that its README gives; the last one also writes the index and the pages of
# matrices and formats. REPOSITORY=URL: an address that the index links to.
site: export REPORTS = runs
site: docs
	rm -rf site/runs
	cp -R results/published site/runs
	sed -n 's|^spmvbench report.*|$(BIN)/&|p' site/runs/*/README.md \
	  | sed 's|results/published|site/runs|g; $$!s|$$| --no-index|; $$s|$$|$(if $(REPOSITORY), --repository $(REPOSITORY))|' \
	  | sh -e

# Each page has the command of its table; README.md has the tables of others. What a page shows of rows is in no other place.
PUBLISHED = results/published
tables: $(VENV)/.dev
	$(BIN)/python -m spmvbench.publishing speed $(PUBLISHED)/h200-headline $(PUBLISHED)/h200-long-rows $(PUBLISHED)/h200-rivals \
	  $(PUBLISHED)/h200-irregular --short --page README.md
	$(BIN)/python -m spmvbench.publishing time_to_n $(PUBLISHED)/h200-applications --page README.md
	sed -nE 's,^python -m spmvbench[.]publishing .* --page docs/.*,$(BIN)/&,p' docs/*.md docs/results/*.md | sh -ex
	$(BIN)/python -m spmvbench.publishing readmes $(PUBLISHED)
	$(BIN)/spmvbench report $(PUBLISHED)/h200-headline --dtype f64 --mode hot --figures ratios,bounds --out $(VENV)/pictures
	cp $(VENV)/pictures/figures/ratios.svg docs/figures/h200-ratios.svg
	cp $(VENV)/pictures/figures/bounds.svg docs/figures/h200-bounds.svg
	$(BIN)/spmvbench report $(PUBLISHED)/h200-applications --dtype f64 --group synthetic --figures products \
	  --out $(VENV)/pictures
	cp $(VENV)/pictures/figures/products.svg docs/figures/h200-products.svg
	$(BIN)/spmvbench report $(PUBLISHED)/h200-headline --beside $(PUBLISHED)/h100-headline --dtype f64 --mode hot --figures bounds \
	  --out $(VENV)/pictures/cards
	cp $(VENV)/pictures/cards/figures/cards.svg docs/figures/cards.svg

# The pages have the commands. New rows of a run that they name need nothing else; RUNS: others, to be in the commands from then on.
models: $(VENV)/.dev
	sed -nE 's,^python -m spmvbench[.]publishing (auto|advice) .*,$(BIN)/& $(RUNS),p' docs/results/auto.md docs/results/advice.md | sh -ex

clean:
	rm -rf $(VENV) results/demo

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is missing or older than Python 3.11; name another: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Beyond the base: CuPy for the driver's CUDA version where a GPU answers, a C++ compiler where the machine has none.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@extras=; \
	cuda=$$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA[A-Z ]*Version: *\([0-9][0-9]*\).*/\1/p' | head -n 1); \
	if [ "$${cuda:-0}" -ge 13 ]; then extras=cuda13; elif [ "$${cuda:-0}" -eq 12 ]; then extras=cuda12; fi; \
	command -v "$${CXX%% *}" >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || \
	  extras="$${extras:+$$extras,}cpu"; \
	echo "Installing spmvbench$${extras:+[$$extras]} into $(VENV)"; \
	$(PIP) -e ".$${extras:+[$$extras]}"
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@
