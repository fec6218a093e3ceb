# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The ways into the project. `make` prints them.

PYTHON ?= python3
BIN := .venv/bin
BENCH_ARGS ?= --suite square --suite bert --suite odd --dtype f32 --threads 1

.DEFAULT_GOAL := help
.PHONY: help setup demo check bench fmt lint docs wheel clean

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install, fetch and build everything into .venv (seconds when nothing changed)
	@$(PYTHON) tools/setup

demo: setup ## The main job on real shapes: speed, share of the peak, against numpy (OpenBLAS) and MKL
	@$(BIN)/tilewright bench --suite square --suite bert --dtype f32 --threads 1

bench: setup ## The side-by-side benchmark; BENCH_ARGS="…" replaces its arguments
	@$(BIN)/tilewright bench $(BENCH_ARGS)

check: setup ## Lint, types and every test
	@$(BIN)/python tools/setup/check.py lint lit pytest

lint: setup ## Lint and types only
	@$(BIN)/python tools/setup/check.py lint

fmt: setup ## Format every source
	@$(BIN)/python tools/setup/check.py format

docs: setup ## Generate the reference of the dialect into docs/reference
	@$(BIN)/python tools/setup/docs.py

wheel: setup ## A wheel in dist/ that needs no LLVM installed
	@$(BIN)/python tools/setup/wheel.py

clean: ## Remove what was built; .venv and the caches stay
	@rm -rf build dist python/tilewright/mlir python/tilewright/bin python/tilewright/*.so \
	  python/tilewright/_codegen.pyi python/tilewright/_runtime.pyi
