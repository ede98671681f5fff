# One command for each intent. Each sets up what it needs, and a second call does only what changed.
# `make help` lists them.

PYTHON ?= python3

BIN := .venv/bin
CDK := node_modules/.bin/cdk
SANDBOX := BookingtimeDispatcherSandbox --context stage=Sandbox

# A stamp stands when all of its lock was installed. The lock's checksum is in its name: another lock, another stamp.
PACKAGES := .venv/.installed-$(shell cksum < requirements.txt | tr ' ' '-')
NODE_PACKAGES := node_modules/.installed-$(shell cksum < package-lock.json | tr ' ' '-')

# jsii calls Node 20 too old to be supported, which this project still is content with.
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20

.DEFAULT_GOAL := help
.PHONY: help run up stop find test check crash-test soak setup synth deploy destroy bench bench-quick bench-memory bench-scale bench-reconcile schemas bundle-local bundle-aws

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F '|' '{ printf "make %-15s %s\n", $$1, $$2 }'

run: bundle-local $(NODE_PACKAGES) ## start and deploy, dispatch the worked example and a generated hour, show what came of it
	@$(BIN)/python -m tools.demo

up: $(PACKAGES) $(NODE_PACKAGES) ## start the embedded AWS and deploy the application into it
	@$(BIN)/python -m tools.dispatchctl --stage Local up

stop: ## end the embedded AWS; what it holds is gone
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m tools.dispatchctl --stage Local down; else echo "No embedded AWS was running."; fi

find: $(PACKAGES) ## say what became of one booking: make find RECORD=B00042
	@$(BIN)/python -m tools.dispatchctl why $(RECORD)

test: check setup ## run everything that CI runs
	@$(BIN)/pytest --quiet -n 2 tests/contract tests/machine
	@$(BIN)/pytest --quiet tests/infra tests/emulator tests/browser tests/crash
	@$(BIN)/pytest --quiet tests/deployed

check: $(PACKAGES) ## lint, check the types and run the fast tests
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --quiet --check
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/pytest --quiet -n 2 tests/unit

setup: bundle-local bundle-aws $(NODE_PACKAGES) ## install and bundle all that the other commands need

synth: bundle-aws $(NODE_PACKAGES) ## synthesize the sandbox's template into cdk.out; no account is needed
	@$(CDK) synth --quiet $(SANDBOX)

deploy: bundle-aws $(NODE_PACKAGES) ## deploy to the AWS account of your profile (sandbox)
	@$(CDK) deploy $(SANDBOX)

destroy: bundle-aws $(NODE_PACKAGES) ## remove what `make deploy` made, data included
	@$(CDK) destroy $(SANDBOX)

crash-test: $(PACKAGES) ## let every AWS call of a run and of a worker go wrong in every way, and go on from there
	@$(BIN)/python -m tests.crash points
	@$(BIN)/python -m tests.crash worker

soak: $(PACKAGES) ## dispatch, mend and grant through 2,000 random schedules of faults, changes and rival runs
	@$(BIN)/python -m tests.crash soak

bench: bundle-local ## measure what dispatching takes against its own baselines: time, calls, memory, start-up, cost
	@$(BIN)/python -m benchmarks.bench

bench-quick: bundle-local ## do the same on so little that no figure means anything, to see that it works
	@$(BIN)/python -m benchmarks.bench --quick --results .local/bench-quick

bench-memory: $(PACKAGES) ## measure the memory of the full path and of the page path
	@$(BIN)/python -m benchmarks.memory

bench-scale: $(PACKAGES) ## measure the memory, speed and cost of hours of many bookings, grouped as a whole
	@$(BIN)/python -m benchmarks.scale

bench-reconcile: $(PACKAGES) ## measure the memory, speed and calls of a reconcile of 500,000 bookings
	@$(BIN)/python -m benchmarks.reconcile

schemas: $(PACKAGES) ## write the JSON Schemas of tasks, their objects and reports, from the models that they are read with
	@$(BIN)/python -m tools.schemas

bundle-local: $(PACKAGES)
	@$(BIN)/python -m tools.bundle local

bundle-aws: $(PACKAGES)
	@$(BIN)/python -m tools.bundle aws

$(PACKAGES): $(BIN)/python
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
		echo "Python 3.11 or newer is needed, and $(PYTHON) is not. Name one: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@echo "Installing the Python packages (about two minutes and 1.2 GB, once) ..."
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes --requirement requirements.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable .
	@touch $@

# Without a recipe: where it is missing, or the Python behind it is gone, the packages are installed anew.
$(BIN)/python: ;

$(NODE_PACKAGES):
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2> /dev/null || { \
		echo "Node.js 20 or newer is needed: https://nodejs.org" >&2; exit 1; }
	@echo "Installing the Node packages ..."
	@npm ci --no-audit --no-fund --no-update-notifier --loglevel=error > /dev/null
	@touch $@
