# Two commands a newcomer needs: `make demo` and `make test`. Each sets up what it uses.

VENV    := .venv
PYTHON  ?= python3
BIN     := $(VENV)/bin
NATIVE  := $(wildcard nbdist/comm/native/*)
CPP     := $(filter %.cpp %.h,$(NATIVE)) $(wildcard tests/comm/native/*.cpp tests/comm/native/*.h)
ROOT    := $(filter 0,$(shell id -u))
APT     := $(if $(ROOT),$(shell command -v apt-get))

.PHONY: demo test conformance lab lint format sanitize bench data browser netns clean

demo: $(VENV)/installed data  ## Train the quickstart notebook on two ranks; leaves out/01_quickstart.html
	$(BIN)/python notebooks/execute.py notebooks/01_quickstart.ipynb

test: $(VENV)/installed data browser netns lint  ## Run all tests
	$(BIN)/python -m pytest $(ARGS)

conformance: $(VENV)/installed  ## Run PyTorch's own tests of a distributed backend on ours; prints how many pass
	$(BIN)/python -m tests.conformance

lab: $(VENV)/installed data  ## Open JupyterLab on the tutorials
	$(BIN)/jupyter lab --notebook-dir=notebooks $(if $(ROOT),--allow-root)

lint: $(VENV)/installed  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(CPP)

format: $(VENV)/installed  ## Rewrite the sources in our style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CPP)

sanitize: $(VENV)/installed  ## Run the C++ tests under AddressSanitizer with UBSan, then ThreadSanitizer
	$(BIN)/python tests/comm/native/build.py --run address,undefined thread

bench: $(VENV)/installed  ## Compare allreduce, training steps and release with gloo and Open MPI, on one host and between hosts
	$(BIN)/python -m benchmarks

# torch first and pinned, so that pip takes a CPU build where its settings offer one (PIP_FIND_LINKS,
# PIP_EXTRA_INDEX_URL); given only a range it would prefer the newest, multi-gigabyte CUDA build.
$(VENV)/installed: pyproject.toml constraints.txt CMakeLists.txt $(NATIVE)
	@echo "Setting up $(VENV): PyTorch, then nbdist and what it needs. This takes some minutes the first time."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[test]"
	@touch $@

# Without root or apt the notebooks fall back to scikit-learn's digits, and say so.
data:
	@test -d /usr/share/datasets/fashion-mnist || test -z "$(APT)" \
	  || { apt-get update -qq && apt-get install -y -qq --no-install-recommends dataset-fashion-mnist; } \
	  || echo "Fashion-MNIST could not be installed; the digits of scikit-learn take its place."

# Without a browser its tests are skipped, and say so.
browser:
	@command -v chromium >/dev/null || test -z "$(APT)" \
	  || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } \
	  || echo "Chromium could not be installed; the browser tests are skipped."

# Without iproute2 the tests over several hosts are skipped, and say so.
netns:
	@command -v ip >/dev/null || test -z "$(APT)" \
	  || { apt-get update -qq && apt-get install -y -qq --no-install-recommends iproute2; } \
	  || echo "iproute2 could not be installed; the tests over several hosts are skipped."

clean:  ## Remove everything the targets above made
	rm -rf $(VENV) build out
