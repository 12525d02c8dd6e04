# Every target makes .venv if need be and installs from requirements.lock; only make, git, Python >= 3.11 and a
# package index are needed.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := topology nodes streams mirrormesh tests experiments grafana docs
WORKERS ?= auto
# Tests on a broker wait for processes, disks and each other: one worker more than cores uses what they leave.
SLOW_WORKERS = $(if $(filter auto,$(WORKERS)),$(shell $(BIN)/python -c \
  'import os; print(1 + len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)))'),$(WORKERS))

IMAGE ?= mirrormesh
MESH ?= tests/simulation/mesh.yaml
SEED ?= 0
HISTORIES ?= 10000

.PHONY: help demo image sbom release site test test-slow test-kafka test-bare lint format simulate bench bench-kafka bench-peers bench-utility docs pictures lock clean
help:            ## show the targets
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/' | column -t -s:

.venv/installed: pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "mirrormesh needs Python 3.11 or later: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (once; about a minute)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --constraint requirements.lock --editable '.[dev,experiments,fast]'
	@touch $@

demo: .venv/installed   ## six sensors follow a moving target privately, live
	@$(BIN)/mirrormesh demo --output out/demo

test: .venv/installed   ## all tests but the slow ones
	@$(BIN)/pytest --numprocesses $(WORKERS) --dist worksteal -m 'not slow'

test-slow: .venv/installed   ## the slow ones: whole meshes on a real Kafka, killed and cut off
	@$(BIN)/pytest --numprocesses $(SLOW_WORKERS) --dist worksteal -m 'slow and not image'

test-kafka: .venv/installed  ## those on a real Kafka; KAFKA=4.1.0 takes that version
	@MIRRORMESH_KAFKA=$(KAFKA) $(BIN)/pytest --numprocesses $(SLOW_WORKERS) --dist worksteal -m 'kafka and not image'

test-image: .venv/installed   ## build the image, run it, and run all of deploy/compose.yaml from it; as root
	@$(BIN)/pytest -m image

test-bare: .venv/installed   ## those that ask for a program, a terminal or a home, with none of them
	@tests/bare.sh --numprocesses $(WORKERS) --dist worksteal

lint: .venv/installed   ## formatting, lint, types, layers, the structure's bounds
	@$(BIN)/ruff format --check $(SOURCES)
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tests.structure.measure

format: .venv/installed ## put the code into its format
	@$(BIN)/ruff format $(SOURCES)
	@$(BIN)/ruff check --fix $(SOURCES)

simulate: .venv/installed   ## 10,000 histories of a mesh under seeded faults: make simulate HISTORIES=1000 SEED=0
	@$(BIN)/mirrormesh simulate $(MESH) --seed $(SEED) --histories $(HISTORIES)

bench: .venv/installed  ## speed, as ratios in one run
	@$(BIN)/python -m tests.benchmarks.mesh

bench-kafka: .venv/installed   ## the same on a real broker, beside bare clients; about twelve minutes
	@$(BIN)/python -m tests.benchmarks.kafka
	@$(BIN)/python -m tests.benchmarks.kafka_decisions

out/peers/installed: tests/benchmarks/peers.txt | .venv/installed
	@$(BIN)/python -m venv --clear out/peers
	@echo "installing DISROPT and Open MPI into out/peers (once)"
	@out/peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
	  --requirement tests/benchmarks/peers.txt \
	  || { echo "bench-peers needs the packages of tests/benchmarks/peers.txt as wheels: see above"; exit 1; }
	@touch $@

bench-peers: out/peers/installed   ## the engine beside DISROPT, in an environment of its own; about two minutes
	@$(BIN)/python -m tests.benchmarks.peers

bench-utility: .venv/installed   ## what each mechanism leaves of the utility at epsilon = 1; about 20 minutes
	@$(BIN)/python -m experiments run utility --output experiments/results
	@$(BIN)/python -m experiments run untuned --output experiments/results

image:           ## the image of all processes: make image BASE=NAME@sha256:... IMAGE=mirrormesh
	@BASE='$(BASE)' deploy/image/build.sh $(IMAGE)

sbom: ## the list of an image's parts (CycloneDX): make sbom IMAGE=mirrormesh
	@mkdir -p out && deploy/image/sbom.sh $(IMAGE) > out/sbom.json && echo out/sbom.json

release: .venv/installed   ## sdist, wheel, their parts (SBOM) into dist/, checked; with BASE the image too
	@deploy/release.sh

site: .venv/installed   ## the documentation as a website, in out/site/html
	@$(BIN)/python -m docs.site

docs: .venv/installed   ## write the generated parts of docs/ anew
	@$(BIN)/python -m docs.generate

pictures: .venv/installed   ## draw the dashboards' pictures anew, of a mesh that runs for five minutes
	@$(BIN)/python -m grafana.pictures

lock: .venv/installed   ## show what is installed, to update requirements.lock from
	@$(BIN)/python -m pip freeze --exclude-editable

clean:           ## remove what the targets made
	@rm -rf .venv out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
