# One environment, one engine. The CPU build is the default; on a GPU machine say so once: make setup ENGINE=cuda
PYTHON   ?= python3.11
VENV     := .venv
BIN      := $(VENV)/bin
HELD     := $(shell cat $(VENV)/.engine 2>/dev/null)
ENGINE   ?= $(or $(HELD),cpu)
HARDWARE ?= cpu
GROUP    ?= full

LOCKS_cpu  := requirements/torch-cpu.lock requirements/cpu.lock
LOCKS_cuda := requirements/cuda.lock
LOCKS      := $(LOCKS_$(ENGINE))
# pip compiles nothing here: Python does it on first import, and only for the modules that are used.
PIP_INSTALL := $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --no-compile --no-deps

# Containers often set this, and then each of an engine's processes compiles thousands of modules at every start.
unexport PYTHONDONTWRITEBYTECODE

ifeq ($(LOCKS),)
$(error ENGINE=$(ENGINE) is unknown: use cpu or cuda)
endif
ifneq ($(filter-out $(ENGINE),$(HELD)),)
$(error $(VENV) holds the $(HELD) engine, and the two builds of vLLM exclude each other: run `make distclean` first)
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup book test torture lint measure train cluster cluster-down lock clean distclean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo "  Variables: ENGINE=cpu|cuda (now $(ENGINE)), PYTHON, and for measure HARDWARE and GROUP"

setup: $(VENV)/.installed  ## Install everything into .venv, then say what the machine lacks
	@$(BIN)/specbook doctor

book: $(VENV)/.installed  ## Measure a quick plan if this machine has no records yet, then build the HTML
	@$(BIN)/specbook book

test: lint  ## Lint, then run every test
	@$(BIN)/pytest -n 3 --dist loadgroup --no-loadscope-reorder  # servers and browsers are often waited for

torture: $(VENV)/.installed  ## Strike at random moments for ten minutes; SEED=N strikes there again
	@$(BIN)/python tests/torture/torture.py $(if $(SEED),--seed $(SEED))

lint: $(VENV)/.installed  ## Check code and notebooks with ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

measure: $(VENV)/.installed  ## Run every chapter's full plan and append its records
	@$(BIN)/specbook run all --hardware $(HARDWARE) --group $(GROUP)

cluster: $(VENV)/.installed  ## Build and start a one-node Kubernetes on this Debian machine, as root
	@$(BIN)/python deploy/cluster/cluster.py up

cluster-down: $(VENV)/.installed  ## Take that Kubernetes down, and leave nothing of it running
	@$(BIN)/python deploy/cluster/cluster.py down

train: $(VENV)/.installed  ## Train the pocket models again
	@$(BIN)/specbook train

lock:  ## Resolve requirements/*.lock again; LOCK=--upgrade takes the newest versions
	@echo "lock: resolving both engines from metadata, nothing is installed (2 to 5 minutes)"
	@$(PYTHON) -m venv build/lock && build/lock/bin/python -m pip install --quiet pip==26.3
	@build/lock/bin/python requirements/lock.py cpu $(LOCK)
	@build/lock/bin/python requirements/lock.py cuda $(LOCK)

clean:  ## Remove what a build makes; results/, models/ and .venv stay
	rm -rf _build book/_build book/executed build dist results/.partial .pytest_cache .ruff_cache lib/*.egg-info
	find lib tests notebooks -name __pycache__ -o -name .ipynb_checkpoints | xargs rm -rf

distclean: clean  ## clean, and remove .venv too
	rm -rf $(VENV)

# Each step leaves a stamp only when it is done, so an interrupted install goes on where it stopped.
$(VENV)/.engine:
	@$(PYTHON) -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null || { \
	  echo "specbook needs Python 3.11 with venv, and '$(PYTHON)' is not that. On Debian or Ubuntu:"; \
	  echo "  sudo apt-get install python3.11 python3.11-venv"; \
	  echo "or name another one: make setup PYTHON=/path/to/python3.11"; exit 1; }
	@echo "setup 1/3: creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV)
	@echo $(ENGINE) > $@

# A package whose RECORD is missing was cut off while it was unpacked, yet pip would take it for installed.
$(VENV)/.locked: $(LOCKS) | $(VENV)/.engine
	@for info in $(VENV)/lib/python3*/site-packages/*.dist-info; do \
	  if [ -d "$$info" ] && [ ! -f "$$info/RECORD" ]; then rm -rf "$$info"; fi; done
	@for lock in $(LOCKS); do \
	  echo "setup 2/3: installing $$lock (minutes the first time)"; $(PIP_INSTALL) -r $$lock || exit 1; done
	@touch $@

# Python 3.11 reads .pth files as the locale has it, and with LC_ALL=C would not start where the checkout's own path is no
# ASCII: a relative one is.
$(VENV)/.installed: pyproject.toml $(VENV)/.locked
	@echo "setup 3/3: installing specbook itself, editable"
	@$(PIP_INSTALL) --no-build-isolation --editable .
	@for path in $(VENV)/lib/python3*/site-packages/__editable__.specbook-*.pth; do echo ../../../../lib > "$$path"; done
	@touch $@
