# Everything happens in .venv, made with the first Python 3.11 or newer found.
# ARGS goes to the command: make test ARGS="tests/probes -x"

VENV := .venv
BIN := $(VENV)/bin
# Touched last, so an interrupted install is started again.
STAMP := $(VENV)/.installed
CANDIDATES := python3.11 python3
# Errors only: warnings of pip and of the build are many, and none is for the user to act on.
PIP_INSTALL := pip install -qq --disable-pip-version-check -c constraints.txt
OPEN_CLIP := .venv-open-clip
OPEN_CLIP_STAMP := $(OPEN_CLIP)/.installed
PIP_INSTALL_OPEN_CLIP := $(PIP_INSTALL:constraints.txt=constraints-open-clip.txt)
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test fuzz record-towers test-open-clip lint format bench notebooks clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

install: $(STAMP) ## create .venv with the package and its development tools

$(STAMP): pyproject.toml constraints.txt
	@rm -f $@
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		python=; \
		for candidate in $(CANDIDATES); do \
			if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
				python=$$candidate; break; \
			fi; \
		done; \
		if [ -z "$$python" ]; then \
			echo "No Python 3.11 or newer found: install Python 3.11 and run make again." >&2; exit 1; \
		fi; \
		if ! $$python -c 'import ensurepip, venv' >/dev/null 2>&1; then \
			echo "$$python has no venv module: install it (Debian, Ubuntu: apt-get install python3-venv) and run make again." >&2; exit 1; \
		fi; \
		$$python -m venv --clear $(VENV) || exit 1; \
	fi
	@echo "Installing into $(VENV): downloads about 0.5 GB (3 GB where PyTorch comes with CUDA) and takes a few minutes."
	@$(BIN)/python -m $(PIP_INSTALL) pip
	@$(BIN)/python -m $(PIP_INSTALL) --build-constraint constraints.txt -e ".[dev]"
	@touch $@

demo: install ## diagnose a built-in tower: no download beyond the install
	@$(BIN)/workbench diagnose $(ARGS)

test: install ## run the tests
	@$(BIN)/python -m pytest $(ARGS)

fuzz: install ## read 2,000 damaged files with each reader, and parse as many options
	@$(BIN)/python -m tests.fuzz $(ARGS)

test-open-clip: $(OPEN_CLIP_STAMP) ## run the tests of open_clip towers, in .venv-open-clip
	@$(OPEN_CLIP)/bin/python -m pytest --no-skips -k open_clip tests/workbench/towers/test_open_clip.py \
		tests/workbench/towers/test_open_clip_loading.py tests/workbench/towers/test_families.py \
		tests/workbench/towers/test_loading.py tests/workbench/test_engine.py $(ARGS)

# Beside .venv, since open_clip needs torchvision, whose wheel on PyPI wants another build of torch.
$(OPEN_CLIP_STAMP): pyproject.toml constraints-open-clip.txt | $(STAMP)
	@rm -f $@
	@$(OPEN_CLIP)/bin/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m venv --clear $(OPEN_CLIP)
	@echo "Installing into $(OPEN_CLIP): a PyTorch of its own, 6 GB on disk where it comes with CUDA; takes a few minutes."
	@$(OPEN_CLIP)/bin/python -m $(PIP_INSTALL_OPEN_CLIP) pip
	@$(OPEN_CLIP)/bin/python -m $(PIP_INSTALL_OPEN_CLIP) -e ".[open-clip]" pytest
	@touch $@

lint: install ## check style, format and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

format: install ## fix what ruff can fix, and format
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

record-towers: install $(OPEN_CLIP_STAMP) ## write down what the tests verified of each model family
	@$(BIN)/python -m pytest -p tests.record -k "not open_clip and not coverage" tests/workbench/towers tests/workbench/test_engine.py
	@$(OPEN_CLIP)/bin/python -m pytest -p tests.record -k "open_clip and not coverage" tests/workbench/towers tests/workbench/test_engine.py

bench: install ## run the benchmarks
	@$(BIN)/python -m tests.benchmarks $(ARGS)

notebooks: install ## run the notebooks from top to bottom
	@$(BIN)/python -m pytest --nbmake notebooks $(ARGS)

clean: ## remove .venv, .venv-open-clip, builds and caches (runs/ stays)
	rm -rf $(VENV) $(OPEN_CLIP) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
