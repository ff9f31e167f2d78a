# Two commands on a fresh machine with Python 3.11+ and make: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

# The tests start hundreds of processes of ours: compiled code that is kept saves each of them most of a second.
unexport PYTHONDONTWRITEBYTECODE

LOCK := pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url

.DEFAULT_GOAL := help
.PHONY: help install setup docs demo test test-unit test-thorough test-integration test-long test-decisions test-models test-slow test-browser fuzz lock audit sbom check format bench bench-quick bench-guard chaos chaos-quick chaos-ci clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  \033[1mmake %-17s\033[0m %s\n", $$1, $$2}'

# what is locked, by its hashes; where that can't be had, what pyproject.toml allows, and it is said
define brought
@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(1) \
  || echo "The locked versions can't all be installed here (above): taking what pyproject.toml allows instead."
$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.$(2)'
@touch $@
endef

$(BIN)/.installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Rajada needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(call brought,requirements.lock,)

$(BIN)/.ready: $(BIN)/.installed requirements-dev.lock
	$(call brought,requirements-dev.lock,[dev])

install: $(BIN)/.installed ## Make the virtual environment (.venv) with what runs Rajada

setup: $(BIN)/.ready ## The same with all that tests, checks and the site need

demo: install ## Run the main job on real Kafka and Postgres, a minute of a clinic's WhatsApp
	$(BIN)/rajada demo

test: check test-unit test-thorough test-integration ## Check the code and pass the tests

test-unit: setup ## The tests that need neither Kafka nor Postgres, but for properties (seconds)
	@$(BIN)/python -m tests.in_parts tests/unit -m "not slow and not thorough and not hypothesis" -p no:schemathesis -p no:logging

test-thorough: setup ## The same tier's properties, models and slower tests
	$(BIN)/python -m pytest tests/unit -m "(thorough or hypothesis) and not slow" -n 2 --hypothesis-profile=thorough

# Several JVMs on two cores starve each other, and then somebody waits in vain: what failed is told, and run once more
# with the machine to itself. Who fails twice fails.
AGAIN := || { echo "Once more, one by one, what failed above:"; \
  $(BIN)/python -m pytest tests/e2e tests/integration --last-failed --last-failed-no-failures none; }

test-integration: setup ## The tests on real Kafka and Postgres
	$(BIN)/python -m pytest tests/e2e tests/integration -m "not slow and not long and not alone" -n 4 --dist loadfile $(AGAIN)

test-long: setup ## Debezium, clusters, cut-overs, zombies, chaos, the demo, and what measures time: a quarter of an hour more
	$(BIN)/python -m pytest tests/e2e tests/integration -m "long and not slow and not alone" -n 2 --dist loadfile $(AGAIN)
	$(BIN)/python -m pytest tests/e2e tests/integration -m "alone and not slow" $(AGAIN)

test-browser: setup ## The live page in a real, headless Chromium (apt-get install chromium); skipped without one
	$(BIN)/python -m pytest tests/browser

test-decisions: setup ## The decision scenarios; other files of the format: RAJADA_DECISION_CASES=FILE
	$(BIN)/python -m pytest tests/integration/test_decisions.py

test-models: setup ## The models and properties, walked for long (two minutes)
	$(BIN)/python -m pytest tests/unit -m slow

test-slow: setup ## The longest runs: outages of minutes, chaos with many seeds
	$(BIN)/python -m pytest tests -m slow

fuzz: setup ## Each decoder for a minute under a fuzzer that follows the code (brings atheris; 17 minutes)
	$(BIN)/python -m pip install --quiet -e '.[fuzz]'
	$(BIN)/python -m tests.guided_fuzz

check: setup docs ## Linter, types, layers, docstrings, the site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/interrogate -q .

docs: setup ## Build the documentation as a site, into site/; a link to nothing fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

lock: setup ## Choose the newest versions that pyproject.toml allows, for Python 3.11 and later, with their hashes
	$(BIN)/uv pip compile $(LOCK) --upgrade --extra tracing -o requirements.lock
	$(BIN)/uv pip compile $(LOCK) -c requirements.lock --extra dev -o requirements-dev.lock

audit: setup sbom ## Known holes in what is locked (asks a service on the internet), and the SBOM
	@$(BIN)/pip-audit --strict --disable-pip --require-hashes --progress-spinner off -r requirements.lock || { echo \
	  "Not audited, or not clean (above). Without an answer about every package nothing is known: run it where the" \
	  "service for known holes can be reached."; exit 1; }

sbom: setup ## What the image is made of, as CycloneDX, into build/sbom.json
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements requirements.lock --output-reproducible --of JSON -o build/sbom.json

format: setup ## Bring the code into the house's form
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: setup ## Measure everything beside a plain loop and peers, into docs/benchmarks/ (two hours); a part: ARGS=growth
	$(BIN)/python -m bench $(ARGS)

bench-quick: setup ## The subset of three minutes, and the guard against getting slower
	$(BIN)/python -m bench --quick

bench-guard: setup ## The main path beside the plain loop; fails when CPU an event got 30 % worse (two minutes)
	$(BIN)/python -m bench main-path --quick --only ours,plain-loop

chaos: setup ## Hurt the whole stack at random for ten minutes, then audit it; ARGS="--seed 7 --only 3"
	$(BIN)/python -m chaos.stack --seconds 600 $(ARGS)

BOUNDED := $(BIN)/python -m chaos.stack --faults bounded --seconds 90 --rate 20 --contacts 200

chaos-ci: setup ## Three minutes of what any machine gets over soon: a fixed seed, then a random one (five minutes)
	$(BOUNDED) --seed 7
	$(BOUNDED)

chaos-quick: setup ## Three minutes of it with a fixed seed, three with a random one
	$(BIN)/python -m chaos.stack --seconds 180 --seed 7
	$(BIN)/python -m chaos.stack --seconds 180

clean: ## Remove the virtual environment and caches (data in .rajada stays)
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build site *.egg-info
