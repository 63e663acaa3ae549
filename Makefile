# The commands of the project. `make train` and `make test` need nothing but Python 3.11 or newer.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

OLDEST := $(VENV)-oldest
CODE := src tests benchmarks tools $(wildcard examples)

# One process for each core: the type checker beside them is done long before they are.
WORKERS := $(shell $(PYTHON) -c 'import os; print(min(4, os.cpu_count() or 1))')
SPREAD := $(if $(filter 1,$(WORKERS)),,--numprocesses $(WORKERS) --dist worksteal)
# One more where nothing runs beside them: many tests wait, for threads, for other processes, for the disk.
ONE_MORE := --numprocesses $(shell expr $(WORKERS) + 1) --dist worksteal

# Compiled modules and tests are kept between runs: collecting the tests is three times as fast then.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv train test delivery test-gpu test-cuda-wheels fuzz-gpu ptxas soak records judge fuzz check types changed-types fast format index engines proto walk tutorial bench bench-tensor bench-nets bench-ops bench-gpu profile docs documents array-api test-oldest

help:  ## List these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST)

venv: $(INSTALLED)  ## Create the virtual environment and install tazza into it

$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tazza needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(PIP_INSTALL) --editable '.[dev,digits,pictures]'
	@touch $@

train: venv  ## Train LeNet on the handwritten digits that come with scikit-learn
	$(BIN)/tazza train lenet --out out/lenet --overwrite

test: venv  ## Run the tests of the package, and say what was skipped and why
	$(BIN)/pytest -r s -m 'not delivery' $(ONE_MORE)

delivery: venv  ## Tests of what goes with it: commands of documents, site, wheel, benchmarks, types of all files; six minutes
	$(BIN)/pytest -r s -m delivery $(ONE_MORE) tests/house tests/docs tests/distribution tests/benchmarks tests/proto tests/cli \
		tests/test_python_module.py

test-gpu: venv  ## Tests on a CUDA device, all cases of its engines among them; without one, says so, and runs a sample on a fake one
	$(BIN)/pytest -r s tests/device tests/engines/cuda tests/engines/cublas tests/engines/cudnn tests/engines/nccl tests/codegen/test_nvptx.py

fuzz-gpu: venv  ## Random nets on a fake host with two CUDA devices that run as late as can be, and mutants of calls: some ten minutes
	$(BIN)/python -m tests.device $(ONLY)

ptxas: venv  ## Assemble every kernel of our own for CUDA for three generations of GPUs, by the assembler of the extra ptxas: some ten minutes
	$(BIN)/python -m tests.device.assembled $(ONLY)

test-cuda-wheels: venv  ## Plans of cuDNN for GPUs that are described and not there, and declarations beside headers: with the extra cuda, a minute or two
	$(BIN)/pytest -r s tests/wheels

soak: venv  ## Ten thousand random nets under stress, thousands that are made and deleted or interrupted, all arguments at their edges: some ten minutes
	$(BIN)/pytest --quiet --soak tests/nets/test_stress.py tests/nets/test_interrupts.py tests/nets/test_interrupt_places.py tests/operator/test_extremes.py

records: venv  ## Ten million records through readers, queues and stages on threads: some ten minutes; ONLY="--records 1000000 --minutes 5"
	$(BIN)/python -m tests.records $(ONLY)

fuzz: venv  ## Fuzz nets, files and commands: some twenty minutes; ONLY="--minutes 120" for as long as one likes
	$(BIN)/python -m tests.fuzz $(if $(ONLY),$(ONLY),--nets 300000 --files 100000 --commands 10000)

check: venv  ## Formatting, lint; types of the package and of what changed beside gates and fast tests: under two minutes
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync changed-types fast

types: venv  ## Types, of the package and of all that surrounds it: two to three minutes
	$(BIN)/python -m tools.check_types --all

changed-types: venv  ## Types of the files that changed since they were found right, and of those that import them; of the package all
	$(BIN)/python -m tools.check_types

# They give way to the type checker, which takes one process however many cores there are.
fast: venv  ## The fast tests, with fewer examples of each law than `make test` takes
	nice $(BIN)/pytest --quiet -m 'not slow' --hypothesis-profile fast $(SPREAD)

format: venv  ## Format the code and mend what lint can mend
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

index: venv  ## Regenerate the index of operators, kernels and engines, the pages of operators, the tables of docs/migration.md
	$(BIN)/python tools/generate_index.py
	$(BIN)/python -m tools.write_operator_pages
	$(BIN)/python -m tools.write_operators
	$(BIN)/python -m tools.write_conformance
	$(BIN)/python -m tools.write_migration

engines: venv  ## Declare anew which calls each engine refuses, and which the selective ones take
	$(BIN)/pytest --quiet --declare $(SPREAD) tests/ops tests/engines tests/operator

proto: venv  ## Regenerate the message modules from the .proto files
	$(BIN)/python tools/generate_proto.py

bench: venv  ## Time tazza beside its peers; QUICK=1, NETS="resnet50 lenet-1", CONTENDERS=torch,openvino, RUNS=3, PEERS_PYTHON=, BEFORE=../old
	$(BIN)/python -m benchmarks.bench $(NETS) $(if $(QUICK),--quick) $(if $(RUNS),--runs $(RUNS)) \
		$(if $(CONTENDERS),--contenders "$(CONTENDERS)") $(if $(PEERS_PYTHON),--peers-python "$(PEERS_PYTHON)") \
		$(if $(BEFORE),--before "$(BEFORE)")

bench-tensor: venv  ## Time the tensor library beside its peers; QUICK=1, ONLY="lazy sparse", PEERS_PYTHON=
	$(BIN)/python -m benchmarks.tensor $(ONLY) $(if $(QUICK),--quick) $(if $(PEERS_PYTHON),--peers-python "$(PEERS_PYTHON)")

walk: venv  ## Write the sessions and draw the pictures of docs/walk anew
	$(BIN)/python -m tools.write_walk
	$(BIN)/python -m tools.draw_walk
	$(BIN)/python -m tools.draw_columns
	$(BIN)/python -m tools.draw_tiles
	$(BIN)/python -m tools.draw_arena

tutorial: venv  ## Write the session and draw the pictures of docs/tensor anew
	$(BIN)/python -m tools.write_tensor
	$(BIN)/python -m tools.draw_tensor

judge: venv  ## Judge random layers and chains on all engines against float64: LAYERS=2000 CHAINS=1000 SEED=0 DTYPE=float32|bfloat16 MINUTES=0 ONLY=Type
	$(BIN)/python -m tests.judge $(if $(LAYERS),--layers $(LAYERS)) $(if $(CHAINS),--chains $(CHAINS)) $(if $(SEED),--seed $(SEED)) \
		$(if $(DTYPE),--dtype $(DTYPE)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY))

bench-nets: venv  ## Time executors of nets: cost of an operator, branches, GoogLeNet, copies beside compute; QUICK=1, ONLY="..."
	$(BIN)/python -m benchmarks.nets $(ONLY) $(if $(QUICK),--quick) $(if $(PEERS_PYTHON),--peers-python "$(PEERS_PYTHON)")

bench-ops: venv  ## Time each operator beside PyTorch's, sorted by ratio; QUICK=1, CPU=1 on a busy machine, ONLY="pooling Softmax", PEERS_PYTHON=
	$(BIN)/python -m benchmarks.operators $(ONLY) $(if $(QUICK),--quick) $(if $(CPU),--cpu) $(if $(THREADS),--threads $(THREADS)) \
		$(if $(PEERS_PYTHON),--peers-python "$(PEERS_PYTHON)")

bench-gpu: venv  ## Time operators on a CUDA device beside PyTorch's; without a device, says so
	$(BIN)/python -m benchmarks.gpu

profile: venv  ## Profile GoogLeNet for docs/profile and draw its pictures anew
	$(BIN)/python -m tools.draw_profile

docs: venv  ## Build the site in out/site/html: all pages, references made from the code, search; half a minute of a processor
	$(BIN)/python -m tools.site.build

documents: venv  ## Run every command that a document shows, those that take long too, at a small size: some twenty minutes
	$(BIN)/pytest --quiet --documents tests/docs/test_commands.py

array-api: venv  ## Run the array-API standard's own suite on tazza.array; ARRAY_API_TESTS=checkout of it, cloned where none is named
	$(BIN)/python -m tools.array_api

test-oldest: pyproject.toml  ## Test messages and tensors on the oldest dependencies that are allowed (Python 3.11)
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python tools/oldest_requirements.py > $(OLDEST)/oldest.txt
	$(OLDEST)/bin/python $(PIP_INSTALL) --constraint $(OLDEST)/oldest.txt --editable . pytest hypothesis
	$(OLDEST)/bin/pytest --quiet tests/proto tests/tensor tests/array
