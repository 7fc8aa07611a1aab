# `make demo` and `make test` do all the set-up: they need only Python 3.11 or newer and make.

PYTHON ?= python3
EXTRAS ?= app,dask,anndata,test
WORKERS ?= 2
ARGS ?=

VENV := .venv
RUN := $(VENV)/bin/python
INSTALL := $(RUN) -m pip install -q --disable-pip-version-check -c constraints.txt

# A stamp names its extras, so that another list of extras is another install.
comma := ,
READY := $(VENV)/.ready-$(subst $(comma),-,$(EXTRAS))
DEV := $(VENV)/.dev-$(subst $(comma),-,$(EXTRAS))
DOCS := $(VENV)/.docs-$(subst $(comma),-,$(EXTRAS))

# In the order of the paper; the last two are not in it.
EXPERIMENTS := $(addprefix paper.,recovery covariance_recovery grid n_components real_sets gene_sets gene_correlations topics) \
	studies.auto_rule studies.monotone

.PHONY: help demo test docs dist reproduce reproduce-full gate gate-quick bench dev lint clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   install what is needed into $(VENV) and run examples/demo.py"
	@echo "make test   install what is needed into $(VENV) and run all tests (ARGS='-k name' picks some)"
	@echo "make docs   build the site into docs/_build/html, without a warning, and check it"
	@echo "make dist   build the wheel and the sdist into dist/, and check them"
	@echo "make reproduce       every experiment of the paper, few runs, to experiments/results/quick/"
	@echo "make reproduce-full  the same with the paper's numbers of runs, to experiments/results/; resumes if killed"
	@echo "make gate   laws, faults, calibration and noise, an hour: experiments/results/gate.csv and docs/trust.md; resumes if killed"
	@echo "make gate-quick      the same in five minutes, as CI runs it, to experiments/results/quick/"
	@echo "make bench  first fit, the speeds of the README to benchmarks/table.csv, and growth, in processor time"
	@echo "make lint   ruff check, ruff format --check, mypy src"
	@echo "make dev    install the tools that make lint uses, and pre-commit"
	@echo "make clean  remove $(VENV), caches, build files and the demo's output"
	@echo
	@echo "PYTHON=python3.12 picks the Python that makes $(VENV)."

demo: $(READY)
	@$(RUN) examples/demo.py

test: $(READY)
	$(RUN) -m pytest -n $(WORKERS) $(ARGS)

# One thread: the matrices of the gallery are small.
docs: $(DOCS)
	rm -rf docs/api/generated docs/gallery
	OMP_NUM_THREADS=1 $(RUN) -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(RUN) -m pytest -q tests/test_site.py
	@echo "open docs/_build/html/index.html"

dist: $(DEV)
	rm -rf dist
	$(RUN) -m build --no-isolation --outdir dist .
	$(RUN) .ci/check_dist.py dist

reproduce: $(READY)
	@set -e; for name in $(EXPERIMENTS); do echo "== $$name"; $(RUN) -m experiments.$$name --quick $(ARGS); done

reproduce-full: $(READY)
	@set -e; for name in $(EXPERIMENTS); do echo "== $$name"; $(RUN) -m experiments.$$name --full $(ARGS); done

# The page gets the figures of a full run even if some of them are broken.
gate: $(READY)
	$(RUN) -m experiments.gate --full $(ARGS); ended=$$?; $(RUN) -m experiments.gate.report && exit $$ended

gate-quick: $(READY)
	$(RUN) -m experiments.gate --quick $(ARGS)

bench: $(READY)
	@set -e; for name in startup "table benchmarks/table.csv" growth; do OMP_NUM_THREADS=1 $(RUN) benchmarks/$${name%% *}.py $${name#$${name%% *}}; done

dev: $(DEV)

lint: $(DEV)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy src

clean:
	rm -rf $(VENV) build dist demo-output docs/_build docs/gallery docs/api/generated .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# pip is the last thing that venv makes: without it the environment is missing or half made.
$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "blockmix needs Python 3.11 or newer, and $(PYTHON) is not: name one with PYTHON=..." >&2; exit 1; }
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv --clear $(VENV)

$(READY): pyproject.toml constraints.txt | $(VENV)/bin/pip
	@echo "Installing blockmix[$(EXTRAS)] into $(VENV)"
	@$(INSTALL) -e ".[$(EXTRAS)]"
	@touch $@

$(DEV): $(READY)
	@echo "Installing blockmix[dev] into $(VENV)"
	@$(INSTALL) -e ".[$(EXTRAS),dev]"
	@touch $@

$(DOCS): $(READY)
	@echo "Installing blockmix[docs] into $(VENV)"
	@$(INSTALL) -e ".[$(EXTRAS),docs]"
	@touch $@
