# `make` lists what there is. The commands of `app` and `test` are the README's, word for word.

.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

.PHONY: help app test check format numbers nightly ci

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

app:  ## install what the app needs and open the dashboard
	python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt && .venv/bin/streamlit run dashboard.py

test:  ## install what the tests need and run those for each commit: at most six minutes on two cores
	python3 -m venv .venv && .venv/bin/pip install -q -r requirements-dev.txt && .venv/bin/python -m pytest

check:  ## ruff and mypy
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy

format:  ## lay out the code
	$(PYTHON) -m ruff check --select I --fix .
	$(PYTHON) -m ruff format .

numbers:  ## remake every stored table and page that rests on an interval, from stored predictions; no model is run
	$(PYTHON) docs/make_numbers.py

nightly:  ## every test there is, without a bound on its time; the log goes to docs/nightly.log
	bash -c 'set -o pipefail; { worst=0; $(PYTHON) -m pytest -q -ra || worst=1; \
	$(PYTHON) -m pytest -q -ra -m "e2e or slow or nightly" || worst=1; \
	$(PYTHON) -m pytest -q -ra -n 0 -m bench || worst=1; exit $$worst; } 2>&1 | tee docs/nightly.log'

ci:  ## all that must pass before a change is merged: the tests, then those slow for their volume
	bash .ci/run
