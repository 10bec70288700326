# One command each. The first of them makes the environment in .venv; later ones find it there.
.PHONY: demo test test-rest test-all lint docs web bench reference help
.DEFAULT_GOAL := help

VENV := .venv
# The first Python on the path that is new enough; procgen-mirror has wheels for 3.11 and 3.12.
PYTHON ?= $(shell for python in python3.11 python3.12 python3; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
READY := $(VENV)/.ready
REFERENCE := .reference
# The reference's environments and the engines of μRTS and of Orbit Wars, which the tests run. They are declared for
# Python 3.10 at most, or for versions of packages that they don't need, or that do in others.
BY_THEMSELVES := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt \
	--no-deps --ignore-requires-python entity-gym gym-microrts kaggle-environments

help:
	@echo "make demo   train RogueNet on a Procgen game, about five minutes; results in runs/demo/"
	@echo "make test   tests of all parts, at most two minutes"
	@echo "make test-all  all tests"
	@echo "make lint   ruff and mypy"
	@echo "make docs   the documentation site, in docs/_build/html"
	@echo "make web    ONNX Runtime for the page in web/; then: python -m http.server -d web"
	@echo "make bench  benchmarks against named peers, about ten minutes; results in benchmarks/results.json and .png"

demo: $(READY)
	$(VENV)/bin/python examples/demo.py

# Tests start many processes. Each would compile the package anew where Python must not keep bytecode.
test test-rest test-all: export PYTHONDONTWRITEBYTECODE :=
PYTEST := $(VENV)/bin/python -m pytest -n 2 --dist worksteal

test: $(READY)
	$(PYTEST) --quick

# What `make test` has left out: with it, all tests.
test-rest: $(READY)
	$(PYTEST) --rest

test-all: $(READY)
	$(PYTEST)

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	MYPYPATH=$(VENV)/src $(VENV)/bin/mypy -p entitize

docs: $(READY)
	$(VENV)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html

# What the page needs of onnxruntime-web; it is not committed.
web:
	cd web && npm install --silent --no-audit --no-fund
	mkdir -p web/vendor
	cd web/node_modules/onnxruntime-web/dist && cp ort.wasm.min.mjs ort-wasm-simd-threaded.mjs ort-wasm-simd-threaded.wasm ../../../vendor

bench: $(READY) reference
	$(VENV)/bin/entitize bench

# The network and the trainer that benchmarks/reference.py compares with, in a folder of their own: they are declared
# for Python 3.10 at most, and their other dependencies are in .venv. Without them (no network, Python 3.12) the
# other benchmarks run all the same.
reference: $(READY)
	test -d $(REFERENCE)/enn_trainer || $(VENV)/bin/python -m pip install -qq --disable-pip-version-check \
		-c constraints.txt --no-deps --ignore-requires-python --target $(REFERENCE) rogue-net enn-trainer hyperstate \
		|| echo "the reference trainer can't be installed; its benchmark is left out"

# mypy does not follow setuptools' editable finder: a link named like the package shows it the checkout.
$(READY): pyproject.toml constraints.txt
	$(if $(PYTHON),,$(error Entitize needs Python 3.11 or newer; none was found, name one with make PYTHON=...))
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e ".[procgen,train,serve,datasets,sb3,microrts,onnx,ray,search,wandb,vizdoom,atari,griddly,dev,docs]"
	$(BY_THEMSELVES)
	mkdir -p $(VENV)/src
	ln -sfn ../.. $(VENV)/src/entitize
	touch $@
