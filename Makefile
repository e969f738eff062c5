# `make` lists what there is. The commands of `app` and `test` are the README's, word for word.

.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

.PHONY: help app test quick check format real bench ci

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

app:  ## install what the app needs and open the dashboard
	python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt && .venv/bin/streamlit run dashboard.py

test:  ## install what the tests need and run them all
	python3 -m venv .venv && .venv/bin/pip install -q -r requirements-dev.txt && .venv/bin/python -m pytest

quick:  ## the tests without a browser, on two cores, in the environment that `make test` made
	$(PYTHON) -m pytest -q -n 2 -m "not e2e and not bench and not slow"

check:  ## ruff and mypy
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy

format:  ## lay out the code
	$(PYTHON) -m ruff check --select I --fix .
	$(PYTHON) -m ruff format .

real:  ## the checks on real models and data; set SKILLVIZ_REAL to their folder
	$(PYTHON) -m pytest -q -m "real or slow"

bench:  ## the measurements of speed
	$(PYTHON) -m pytest -q -m bench

ci:  ## all that must pass before a change is merged
	bash .ci/run
