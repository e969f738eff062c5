# `make` lists what there is. The commands of `app` and `test` are the README's, word for word.

.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

TOOLS := .venv-tools/bin
# PyTorch and its CUDA packages are not locked: the builds for CPU and GPU are different files of one version.
OF_TORCH := torch cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas nvidia-cuda-cupti nvidia-cuda-nvrtc \
	nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse \
	nvidia-cusparselt-cu13 nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx triton

.PHONY: help app test check format numbers nightly ci raise lock sbom audit

help:  ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

app:  ## install what the app needs and open the dashboard
	python3 -m venv .venv && .venv/bin/pip install -q -r requirements.txt && .venv/bin/streamlit run dashboard.py

test:  ## install what the tests need and run those for each commit: at most six minutes on two cores
	python3 -m venv .venv && .venv/bin/pip install -q -r deploy/requirements-dev.txt && .venv/bin/python -m pytest

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
	$(PYTHON) -m pytest -q -ra -m "e2e or slow or nightly or reliability" || worst=1; \
	$(PYTHON) -m pytest -q -ra -n 0 -m "slurm and (slurm or nightly)" || worst=1; \
	$(PYTHON) -m pytest -q -ra -n 0 -m bench || worst=1; exit $$worst; } 2>&1 | tee docs/nightly.log'

$(TOOLS): deploy/requirements-tools.txt
	python3 -m venv .venv-tools && $(TOOLS)/pip install -q -r deploy/requirements-tools.txt && touch $(TOOLS)

raise: $(TOOLS)  ## raise pinned versions to the newest that fit together (ONLY="NAME NAME" for some), and run the tests
	python3 deploy/raise_versions.py --uv $(TOOLS)/uv --leave $(OF_TORCH) $(if $(ONLY),--only $(ONLY))
	$(MAKE) lock
	rm -rf .venv-raised && python3 -m venv .venv-raised && .venv-raised/bin/pip install -q -r deploy/requirements-dev.txt
	.venv-raised/bin/python -m pytest

lock: $(TOOLS)  ## write deploy/requirements.lock: the pinned versions with the hash of each file
	$(TOOLS)/uv pip compile -q --universal --no-annotate --generate-hashes --python-version 3.11 \
	--custom-compile-command "make lock" $(addprefix --no-emit-package ,$(OF_TORCH)) \
	deploy/requirements-deploy.txt -o deploy/requirements.lock

sbom: $(TOOLS)  ## write sbom.json, a bill of materials (CycloneDX) of deploy/requirements.lock; needs no network
	$(TOOLS)/cyclonedx-py requirements deploy/requirements.lock -o sbom.json

audit: $(TOOLS)  ## look up known vulnerabilities of deploy/requirements.lock; fails where one is known or cannot be looked up
	$(TOOLS)/pip-audit --strict --require-hashes --disable-pip -r deploy/requirements.lock

ci:  ## all that must pass before a change is merged: the tests, then those slow for their volume
	bash .ci/run
