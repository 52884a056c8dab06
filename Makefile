# Every target sets up what it needs in .venv; only Python (3.11 or newer) and make must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help setup demo test check docs format lab clean
help:  ## show the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The stamp stands for an environment that matches the project's own files.
$(VENV)/.installed: pyproject.toml constraints.txt
	@echo "Setting up $(VENV); the first time takes a few minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

setup: $(VENV)/.installed  ## make the environment in .venv

demo: setup  ## run the quickstart experiment (simulated model) and write its report
	$(BIN)/python -m agentlab.demo

test: setup  ## run all tests
	$(BIN)/python -m pytest -n auto --dist worksteal

check: setup  ## lint, format, types, documents
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/refresh_docs.py --check

docs: setup  ## run the commands of the documents, refresh what they show
	$(BIN)/python scripts/refresh_docs.py

format: setup  ## rewrite the code in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lab: setup  ## open JupyterLab on the notebooks
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[lab]'
	$(BIN)/jupyter lab notebooks

clean:  ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
