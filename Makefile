# Every target makes .venv from requirements.lock first, with plain venv and pip. Another Python: make test PYTHON=python3.12

PYTHON  ?= python3
WORKERS ?= 3
EXTRAS  := bdd dev docs fast kafka languages nats pipeline plots server teamwork telemetry traces

BIN   := .venv/bin
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help venv demo test tools client vendor slow spark check bench swarm chaos hostile fuzz mutants screenshots recording diagrams figures docs format lock clean

help: ## show this list
	@printf '\n  Godwit: publish/subscribe for things that move\n\n'
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make \033[1m%-8s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\n'

demo: $(READY) ## see five brokers, a fleet that roams over them, and one broker that is killed (about a minute)
	@$(BIN)/godwit demo

test: $(READY) ## run every test but the slow ones; with APT=1, `make tools` first; with STORE=1, store how long files take
	@[ -z "$(APT)" ] || $(MAKE) -s tools
	@$(BIN)/python -m tests.at_once $(WORKERS) $(if $(STORE),--store-seconds)

tools: ## install what tests need besides Python, if it is missing: Mosquitto and its tools, NATS, Chromium and Node with apt, axe-core with npm
	@missing=; for pair in mosquitto=mosquitto nats-server=nats-server mosquitto_pub=mosquitto-clients chromium=chromium node=nodejs npm=npm; do \
		PATH="$$PATH:/usr/sbin" command -v $${pair%%=*} >/dev/null || missing="$$missing $${pair#*=}"; done; \
		[ -z "$$missing" ] || { apt-get update -qq && apt-get install -qq -y --no-install-recommends $$missing; }
	@cd tests/browser && { [ -d node_modules ] || npm ci --silent --no-audit --no-fund; }

client: ## build the client for browsers, and put it into the package (needs npm)
	@cd clients/browser && { [ -d node_modules ] || npm ci --silent --no-audit --no-fund; } && npm run --silent build
	@cp clients/browser/dist/client.js src/godwit/runtime/web/client.js

vendor: $(READY) ## fetch the libraries of the dashboard again, and check their hashes; with UPDATE=1, write the new ones (needs npm)
	@$(BIN)/python -m tests.browser.vendor $(if $(UPDATE),--update)

slow: $(READY) ## run the tests that `make test` leaves out, but for Spark's: more seeds, long runs, more cases of each law
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m 'slow and not spark' --ignore=tests/property
	@HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m 'not spark' tests/property
	@HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m 'hypothesis and not spark' --ignore=tests/property

spark: $(READY) ## run the tests of the pipeline alone, all in one Spark session, the slow ones too
	@$(BIN)/python -m pytest -q -m spark tests/spark

check: $(READY) ## lint, formatting, types, layers, conventions
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo 'Some files are not formatted: run "make format".'; exit 1; }
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo
	@$(BIN)/python -m pytest -q tests/conventions

bench: $(READY) ## measure an installation, matching, languages, teamwork, the simulator, moves, contexts, sockets, the dashboard and the pipeline beside their targets (half an hour and more)
	@$(BIN)/python benchmarks/installation.py
	@$(BIN)/python benchmarks/matching.py
	@$(BIN)/python benchmarks/languages.py
	@$(BIN)/python benchmarks/teamwork.py
	@$(BIN)/python benchmarks/simulator.py
	@$(BIN)/python benchmarks/mobility.py
	@$(BIN)/python benchmarks/contexts.py
	@$(BIN)/python benchmarks/network.py
	@$(BIN)/python benchmarks/dashboard.py
	@$(BIN)/python benchmarks/pipeline.py

swarm: $(READY) ## run two hundred drawn networks and look for one that breaks a law
	@$(BIN)/godwit simulate --swarm 200 --seed 7

chaos: $(READY) ## kill, stop, cut and starve real brokers for two hundred rounds, and count what was lost or duplicated (half an hour)
	@$(BIN)/python -m tests.unit.matching.every_kernel single  # once; else all brokers of the first network compile them
	@$(BIN)/python -m tests.chaos --rounds 200

hostile: $(READY) ## attack a broker in every known way, and measure how long others wait and how much memory it takes
	@$(BIN)/python benchmarks/hostile.py

fuzz: $(READY) ## damage input from outside a million times, and check that only expected errors occur (ten minutes)
	@$(BIN)/python -m tests.fuzz

mutants: $(READY) ## change the code in a hundred small ways, and see whether a test notices each (an hour)
	@$(BIN)/python -m tests.mutants --count 100

screenshots: $(READY) ## take the pictures of the dashboard again, those of the docs and those that tests compare (needs Chromium)
	@$(BIN)/python -m tests.browser.screenshots
	@$(BIN)/python -m tests.browser.team_screenshots
	@$(BIN)/python -m tests.browser.stored_pictures

recording: $(READY) ## record twenty seconds of the map while the demonstration runs, for the README (needs Chromium)
	@$(BIN)/python -m tests.browser.recording

diagrams: $(READY) ## draw the diagrams of the docs again
	@$(BIN)/python -m scripts.diagrams

figures: $(READY) ## draw the plots of the docs again; with RUNS="FOLDER ...", also those of the search and of its repetition, from the results there
	@$(BIN)/python -m scripts.figures $(RUNS)

docs: $(READY) ## build the documentation site into build/site, without a warning; open build/site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

format: $(READY) ## format the code and fix what lint can fix
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --fix --quiet .

venv: $(READY) ## make .venv, when the lock or pyproject.toml has changed

lock: ## pin the newest versions in requirements.lock (needs uv)
	@uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 --custom-compile-command "make lock" \
		$(addprefix --extra ,$(EXTRAS)) pyproject.toml -o requirements.lock

clean: ## remove .venv and every cache
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo 'Godwit needs Python 3.11 or newer, and "$(PYTHON)" is not. Say which one to use: make PYTHON=python3.12'; exit 1; }
	@printf 'Making .venv: '
	@$(PYTHON) -m venv .venv && printf 'created, '
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements.lock && printf 'libraries, '
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e . && echo 'godwit. Ready.'
	@touch $@
