# The main commands are `make demo`, `make serve` and `make test`. They create .venv in this folder first and install nothing elsewhere.
# `make test-paths`, `make sanitize`, `make explore` and `make test-model` run further tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo serve test setup check pytest test-slow test-engines test-paths sanitize explore test-model table bench results reliability soak inside clean

demo: setup
	$(BIN)/clickvec demo --out out/demo

# Open the page: that of the demo if it is there, otherwise a new one of the built-in log.
serve: setup
	@if test -e out/demo/index/index.json; then $(BIN)/clickvec serve out/demo/index --open; \
		else $(BIN)/clickvec up --out out/up --open; fi

test: check pytest

setup: $(VENV)/ready

# .wheels holds the run-time dependencies: a test installs our wheel with them into an empty environment.
# The installation compiles the C code if there is a compiler.
$(VENV)/ready: pyproject.toml constraints.txt clickvec/native/build.py $(wildcard clickvec/native/*.[ch])
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	rm -rf .wheels && $(BIN)/pip download --quiet --disable-pip-version-check -c constraints.txt -d .wheels numpy rich typer
	@ls clickvec/native/_lstm_*.so > /dev/null 2>&1 || echo "the C code was not compiled, so clickvec is slower; install a C compiler and run: $(BIN)/python clickvec/native/build.py"
	touch $@

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

pytest: setup
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

# Run the tests that take seconds each: kills, signals, compilers, whole programs.
test-slow: setup
	$(BIN)/python -m pytest -n auto --dist worksteal -m slow

# Run the tests that need a Milvus server, which the package milvus brings (Linux on x86-64). It may take minutes to start.
test-engines: setup
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt milvus
	CLICKVEC_SERVERS=1 $(BIN)/python -m pytest -m slow tests/search/engines tests/serve/test_engine_service.py

# Run the tests of C code once for each compiled path of this machine that `make test` does not use.
test-paths: setup
	$(BIN)/python tests/each_path.py

# Run the same tests for each compiled path with AddressSanitizer and UBSan (compiled into build/sanitize).
sanitize: setup
	$(BIN)/python tests/each_path.py --sanitize

# Run the property tests with new random examples. To repeat a run: make explore SEED=...
SEED := $(or $(SEED),$(shell $(PYTHON) -c "import random; print(random.getrandbits(32))"))
explore: setup
	@echo "make explore SEED=$(SEED)"
	$(BIN)/python -m pytest -n auto --dist worksteal -m hypothesis --hypothesis-profile=explore --hypothesis-seed=$(SEED) \
		|| { echo "to repeat: make explore SEED=$(SEED)"; exit 1; }

# Change indexes in so many random steps, and compare each with a new index of the same documents. To repeat a run, give
# its SEED too. 100,000 steps take an hour or two on two cores.
STEPS ?= 20000
test-model: setup
	@echo "make test-model STEPS=$(STEPS) SEED=$(SEED)"
	CLICKVEC_MODEL_STEPS=$(STEPS) CLICKVEC_TEST_SECONDS=86400 $(BIN)/python -m pytest -n auto --dist worksteal \
		--hypothesis-profile=explore --hypothesis-seed=$(SEED) tests/search/test_index_model.py \
		|| { echo "to repeat: make test-model STEPS=$(STEPS) SEED=$(SEED)"; exit 1; }

# Compute the paper's table, every system, on the built-in log.
table: setup
	test -e out/table/site/topics.tsv.gz || $(BIN)/clickvec lab simulate out/table/site --impressions 400000
	$(BIN)/clickvec lab compare --clicks out/table/site/clicks.tsv.gz --dev out/table/site/dev.tsv.gz \
		--test out/table/site/test.tsv.gz --jobs 2 --out out/table/comparison

# Measure speed on the built-in log. model2vec is a baseline; if it cannot be installed, the rest is measured without it.
bench: setup
	-$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt model2vec
	$(BIN)/python benchmarks/text.py
	$(BIN)/python benchmarks/encode.py
	$(BIN)/python benchmarks/encode_growth.py
	$(BIN)/python benchmarks/simulate.py
	$(BIN)/python benchmarks/start.py
	$(BIN)/python benchmarks/explain.py
	$(BIN)/python benchmarks/prepare.py
	$(BIN)/python benchmarks/train.py --threads 2 --rounds 2
	$(BIN)/python benchmarks/train.py --run --epochs 1

# Measure the counts of docs/reliability.md: reading while a writer replaces, damaged and hostile files, killed runs, and search compared
# with an oracle. Half an hour on two cores.
reliability: setup
	$(BIN)/python benchmarks/opens.py
	$(BIN)/python benchmarks/fuzz.py
	$(BIN)/python benchmarks/kills.py
	$(BIN)/python benchmarks/oracle.py

# Break a live index and its service for a quarter of an hour: kill -9, several writers, a full disk, damaged bytes, hostile requests.
# For docs/reliability.md.
soak: setup
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python benchmarks/soak_http.py

# Write docs/results.md from the public data in DATA (see CONTRIBUTING.md). Hours on two cores; it can be interrupted.
DATA ?= ../shared/data
results: setup
	$(BIN)/python benchmarks/results.py --data $(DATA) $(if $(SKIP_THOUGHTS),--skip-thoughts $(SKIP_THOUGHTS))

# Write docs/inside.md: train, measure, draw. About an hour on two cores; it can be interrupted.
inside: setup
	$(BIN)/python benchmarks/inside.py --data $(DATA)
	$(BIN)/python docs/diagrams.py

clean:
	rm -rf $(VENV) .wheels out dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
