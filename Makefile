# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The ways into the project. `make` prints them.

PYTHON ?= python3
BIN := .venv/bin
# Everything that is published: every suite and type, one thread and all, hot and cold, B packed on the fly and ahead of time.
BENCH_TYPES := --dtype f32 --dtype bf16 --dtype u8,i8,i32 --dtype f64 --dtype f16 --dtype i8 --dtype u8 --dtype i8,u8,i32
BENCH_ARGS ?= --suite all $(BENCH_TYPES) --threads 1 --threads all --packing both --cache both
BENCH_DIR ?= build/bench
BENCH_OUT = --json $(BENCH_DIR)/$(1).json --plots $(BENCH_DIR)/$(1) --report $(BENCH_DIR)/$(1).md --command "make $@"
# What README and docs show, one thread, hot, B packed on the fly; a file for each machine.
RESULTS := docs/reference/results
PUBLISH = --resume --json $(RESULTS)
PUBLISHED_TYPES := --dtype f32 --dtype bf16 --dtype u8,i8,i32
FEW_ROWS := --shape 1x4096x4096 --shape 8x4096x4096 --shape 32x4096x4096 --shape 128x4096x4096
BERT_LAYERS := --shape 128x768x768 --shape 128x3072x768 --shape 128x768x3072 --shape 384x1024x1024 --shape 512x4096x1024
QUICK_ARGS ?= --shape 64x64x64 --shape 256x256x256 --shape 1024x1024x1024 --shape 128x768x768 --shape 8x4096x4096 \
  --shape 457x514x330 --dtype f32 --dtype bf16 --dtype u8,i8,i32 --packing both --sample-ms 10

.DEFAULT_GOAL := help
.PHONY: help setup setup-arm setup-netlib setup-outside setup-gpu setup-lab setup-browser setup-bench setup-frameworks setup-torch setup-cluster demo check check-long check-outside check-clusters check-models mutants \
  bench bench-amx bench-card bench-quick bench-results bench-lab bench-bisect bench-docs pictures fmt lint docs wheel vsix clean

help: ## Print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install, fetch and build everything into .venv (seconds when nothing changed)
	@$(PYTHON) tools/setup

setup-arm: ## Install the emulator in which Arm kernels are run and tested and OpenBLAS to compare with (110 MB; skipped, with the reason, where it cannot)
	@$(PYTHON) tools/setup/arm.py

setup-netlib: ## Install netlib's testers of a BLAS, for tests (5 MB; skipped, with the reason, where it cannot)
	@$(PYTHON) tools/setup/netlib.py

setup-outside: setup ## Install other people's suites that run on our BLAS: of LAPACK, BLIS, OpenBLAS, numpy, scipy, R, Octave (900 MB)
	@$(PYTHON) tools/setup/outside.py

setup-gpu: setup ## Install a Vulkan driver for the CPU, NVIDIA's assembler and cuda-core, for tests of GPU kernels (150 MB; skipped, with the reason, where it cannot)
	@$(PYTHON) tools/setup/gpu.py

setup-lab: setup ## Install a web server and bubblewrap, for `tilewright lab` and its tests, and widgets of notebooks (20 MB; skipped, with the reason, where it cannot)
	@$(PYTHON) tools/setup/lab.py

setup-browser: setup ## Install Chromium and playwright, for tests of the lab's page (600 MB; skipped, with the reason, where it cannot)
	@$(PYTHON) tools/setup/lab.py browser

setup-frameworks: setup ## Install torch, JAX and onnxruntime, for tests with them, each into an environment of its own (1.7 GB)
	@$(BIN)/tilewright bench setup --peers torch,xla,onnxruntime
	@$(BIN)/python tools/setup/torch_ops.py

setup-torch: setup ## Install torch into an environment of its own, and build the ops of tilewright.torch (1.2 GB; skipped, with the reason, where it cannot)
	@$(BIN)/python tools/setup/torch_ops.py

setup-cluster: setup ## Install Dask, Ray, mpi4py, Open MPI and MPICH, for tests on many workers (100 MB; skipped, with the reason, where it cannot)
	@$(BIN)/python tools/setup/cluster.py

demo: setup ## The main job on real shapes: speed, share of the peak, against numpy (OpenBLAS), MKL and other libraries that are installed, in some minutes
	@$(BIN)/tilewright bench --suite square --suite bert --dtype f32 --threads 1

setup-bench: setup ## Install the libraries that bench compares with, each into an environment of its own (3.5 GB)
	@$(BIN)/tilewright bench setup

bench: setup ## Measure everything beside every library, for hours; an interrupted run continues. BENCH_ARGS="…" replaces what
	@mkdir -p $(BENCH_DIR)
	@$(BIN)/tilewright bench $(BENCH_ARGS) --resume $(call BENCH_OUT,results)

bench-card: setup-gpu ## Compile kernels for an NVIDIA card, and measure them where there is one; an interrupted run continues
	@$(BIN)/tilewright bench card $(BENCH_DIR)/card --report $(BENCH_DIR)/card.md --command "make $@"

bench-amx: setup ## Check, measure and tune kernels for AMX in ten minutes, beside every library installed; status 2 without AMX
	@mkdir -p $(BENCH_DIR)
	@$(BIN)/tilewright bench amx --rounds 5 --sample-ms 15 --resume --json $(BENCH_DIR)/amx.json

bench-quick: setup ## Six shapes in f32, bf16 and int8, in a few minutes
	@mkdir -p $(BENCH_DIR)
	@$(BIN)/tilewright bench $(QUICK_ARGS) $(call BENCH_OUT,quick)

bench-results: setup ## Measure every figure of README and docs, beside every library, in an hour and more; an interrupted run continues
	@mkdir -p $(RESULTS)
	@$(BIN)/tilewright bench $(PUBLISH) --suite square --suite bert --suite odd --suite skinny $(FEW_ROWS) $(PUBLISHED_TYPES)
	@$(BIN)/tilewright bench $(PUBLISH) --suite square $(PUBLISHED_TYPES) --threads all --peers none
	@$(BIN)/tilewright bench $(PUBLISH) $(BERT_LAYERS) --dtype f32 --dtype bf16,bf16,bf16 --epilogue bias:n,gelu --peers torch-compile,torch-autotune
	@$(BIN)/tilewright bench conv resnet50 $(PUBLISH) --dtype f32 --dtype bf16 --dtype i8 --rounds 9 --sample-ms 20
	@$(BIN)/tilewright bench attention all $(PUBLISH) --dtype f32 --dtype bf16 --rounds 9
	@for suite in level3 gemv square bert odd resnet50 skinny; do \
	  $(BIN)/tilewright bench blas $$suite $(PUBLISH) --dtype f32 --dtype f64 --sample-ms 3 || exit 1; done
	@$(BIN)/tilewright bench blas programs $(PUBLISH) --dtype f32 --dtype f64 --rounds 3 --sample-ms 10
	@for suite in level3 odd; do \
	  $(BIN)/tilewright bench blas $$suite $(PUBLISH) --dtype c64 --dtype c128 --sample-ms 3 || exit 1; done
	@$(BIN)/tilewright bench model bert $(PUBLISH) --tokens 128 --dtype f32 --dtype bf16
	@$(BIN)/tilewright bench model resnet50 $(PUBLISH) --dtype f32
	@$(BIN)/python tools/figures

tuned: setup ## Tune usual products on this machine, and write what won into the package; BUDGET=… are seconds a product, SECONDS=… how long, the rest comes next time
	@$(BIN)/python tools/tuned $(if $(BUDGET),--budget $(BUDGET)) $(if $(SECONDS),--seconds $(SECONDS))

bench-lab: setup setup-lab setup-gpu setup-browser ## Measure each example of the lab: lines known, seconds from an edit to the code, size of the export; some minutes on a quiet machine, an interrupted run continues
	@$(BIN)/python tools/lab_table

bench-bisect: setup setup-arm setup-gpu ## Plant a wrong, a crashing and a slow step in a schedule of each strategy, and write how `tilewright bisect` finds it; half an hour
	@$(BIN)/python tools/bisect_table

bench-docs: setup ## Write every figure of README and docs from docs/reference/results: tables, sentences, pictures
	@$(BIN)/python tools/figures

check: setup setup-arm setup-netlib setup-gpu setup-lab setup-torch ## Lint, types and every test
	@$(BIN)/python tools/setup/check.py lint lit pytest

check-long: setup setup-arm ## Generated specs, rows, operators, schedules and mutants from a fresh seed, for hours; SEED=… repeats one
	@SEED=$(SEED) $(BIN)/python tools/setup/check.py long

check-outside: setup setup-outside setup-browser ## The lab's page in Chromium, Triton's kernels in the emulator, and other people's suites on our BLAS and on the system's, for hours; SUITES="…" names some; an interrupted run continues
	@$(BIN)/python tools/setup/check.py browser
	@$(BIN)/tilewright bench setup --peers triton
	@TILEWRIGHT_TRITON=1 $(BIN)/python -I -m pytest test/outside/test_triton.py test/outside/test_gluon.py test/outside/test_cuda.py test/outside/test_cuda_time.py
	@$(BIN)/python tools/outside $(SUITES)

check-clusters: setup setup-cluster ## Searches on clusters of Dask and Ray, workers killed now and then, and under MPI; products over four processes; some minutes
	@TILEWRIGHT_CLUSTERS=1 $(BIN)/python -I -m pytest test/outside/test_clusters.py test/python/test_distributed.py

check-models: setup setup-torch ## Operators and networks through torch.compile: their numbers, and their speed beside eager and Inductor, for an hour
	@$(BIN)/tilewright bench setup --peers models
	@$$($(BIN)/python -c 'from tilewright.bench import environments; print(environments.python("models"))') \
	  test/outside/compiled --networks --measure $(NAMES)

mutants: setup setup-arm setup-gpu ## Insert some hundred small defects, which tests have to notice, for hours; an interrupted run continues
	@$(BIN)/python tools/mutants

lint: setup ## Lint and types only
	@$(BIN)/python tools/setup/check.py lint

pictures: setup-lab setup-browser ## Take the pictures of the lab's page anew that tests compare it with; look at them before they are committed
	@TILEWRIGHT_PICTURES=1 $(BIN)/python -I -m pytest -q test/browser/test_pictures.py

fmt: setup ## Format every source
	@$(BIN)/python tools/setup/check.py format

docs: setup ## Generate the reference of the dialect and of the steps of schedules into docs/reference
	@$(BIN)/python tools/setup/docs.py

wheel: setup ## Wheels in dist/, each tried in an empty environment: the compiler with its LLVM, and tilewright-runtime; the source distribution
	@$(BIN)/python tools/setup/wheel.py

vsix: ## The extension for VS Code, dist/tilewright-….vsix
	@$(PYTHON) tools/setup/vsix.py

clean: ## Remove what was built; .venv and the caches stay
	@rm -rf build dist python/tilewright/mlir python/tilewright/bin python/tilewright/*.so \
	  python/tilewright/_codegen.pyi python/tilewright/_runtime.pyi python/tilewright/standalone/*.so \
	  python/tilewright/standalone/_native.pyi
