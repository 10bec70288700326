# One command each. The first of them makes the environment in .venv; later ones find it there.
.PHONY: demo test lint bench clean help
.DEFAULT_GOAL := help

VENV := .venv
# The first Python on the path that is new enough; procgen-mirror has wheels for 3.11 and 3.12.
PYTHON ?= $(shell for python in python3.11 python3.12 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
READY := $(VENV)/.ready
# The reference's environments, which the tests run: declared for Python 3.10 at most, and for an older cloudpickle.
ENTITY_GYM := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt \
	--no-deps --ignore-requires-python entity-gym

help:
	@echo "make demo   train RogueNet on a Procgen game, about five minutes; results in runs/demo/"
	@echo "make test   run the tests"
	@echo "make lint   ruff and mypy"
	@echo "make bench  benchmarks against named peers"
	@echo "make clean  drop compiled kernels, which Numba can't tell are stale when an imported module changes"

demo: $(READY)
	$(VENV)/bin/python -m entitize.experiments.demo

test: $(READY)
	$(VENV)/bin/python -m pytest

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	MYPYPATH=$(VENV)/src $(VENV)/bin/mypy -p entitize

bench: $(READY)
	$(VENV)/bin/entitize bench

clean:
	find . -name __pycache__ -not -path "./$(VENV)/*" -prune -exec rm -rf {} +

# mypy does not follow setuptools' editable finder: a link named like the package shows it the checkout.
$(READY): pyproject.toml constraints.txt
	$(if $(PYTHON),,$(error Entitize needs Python 3.11 or newer; none was found, name one with make PYTHON=...))
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[procgen,train,dev]"
	$(ENTITY_GYM)
	mkdir -p $(VENV)/src
	ln -sfn ../.. $(VENV)/src/entitize
	touch $@
