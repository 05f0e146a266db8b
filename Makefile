# `make` lists the commands. CI runs what these run.

.DEFAULT_GOAL := help
SHELL := /bin/bash

# Where Cargo builds.
TARGET := $(or $(CARGO_TARGET_DIR),target)

# Many tests wait, for leases and deadlines: more of them than there are cores keep the cores busy.
export RUST_TEST_THREADS ?= $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install PostgreSQL's programs where that can be done without asking (Debian, as root)
	@if [ -n "$$DATABASE_URL" ] || [ -n "$$TIDEGATE_POSTGRES_BIN" ] \
	  || { command -v postgres && command -v initdb; } >/dev/null \
	  || ls /usr/lib/postgresql/*/bin/postgres /usr/pgsql-*/bin/postgres /opt/homebrew/opt/postgresql*/bin/postgres \
	       /usr/local/opt/postgresql*/bin/postgres 2>/dev/null | grep -q . \
	  || { command -v pg_config >/dev/null && [ -x "$$(pg_config --bindir)/postgres" ]; }; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends postgresql; \
	else \
	  echo "PostgreSQL is needed: apt-get install postgresql, brew install postgresql@17, or set DATABASE_URL" >&2; exit 1; \
	fi

.PHONY: setup-tests
setup-tests: setup ## Install PgBouncer, too, where that can be done without asking: some tests go through it
	@if command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; \
	then :; else \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends pgbouncer \
	  || echo "without pgbouncer its tests try nothing" >&2; \
	fi

.PHONY: demo
demo: setup ## Show it all working, in under a minute after the build
	cargo build -p tidegate -p tidegate-workers --bins
	"$(TARGET)/debug/tidegate" demo

.PHONY: test
test: setup-tests ## Run every test, with the random ones in their short form
	cargo test --workspace --no-run
	@# The programs of the other packages mostly wait, so they run beside the one that computes; what they print comes last.
	@beside="$(TARGET)/test-beside.log"; \
	{ cargo test --workspace --no-fail-fast --lib --bins --test faults --test processes && cargo test --workspace --doc; } \
	  >"$$beside" 2>&1 & others=$$!; \
	cargo test --workspace --test it; it=$$?; \
	wait $$others; others=$$?; cat "$$beside"; exit $$((it | others))

.PHONY: t
t: setup-tests ## Run the tests whose names contain T, after an edit (T=gate, P=tidegate-workers for another package)
	cargo test -p $(or $(P),tidegate --lib --test it) -- $(T)

.PHONY: test-long
test-long: setup-tests ## Run every test, with the random ones in their long form: some eight minutes
	TIDEGATE_TESTS=long cargo test --workspace

.PHONY: mutants
mutants: setup ## Change the SQL functions in sixteen ways, one at a time, and check that the agreement test finds each
	TIDEGATE_TESTS=long cargo test -p tidegate --test it -- agreement::mutants --nocapture

.PHONY: model
model: ## Walk through every state of the model, and tell how many there are (TIDEGATE_MODEL=large: more, for minutes)
	TIDEGATE_MODEL="$(or $(TIDEGATE_MODEL),usual)" cargo test -p tidegate-model --lib -- --nocapture --test-threads 1

.PHONY: faults
faults: setup ## Break a running fleet at random, and check that every promise held (TIME=30m SEED=7 FAULTS=--failover)
	cargo build --release --workspace --bins
	"$(TARGET)/release/tidegate-faults" run --time "$(or $(TIME),30m)" $(if $(SEED),--seed "$(SEED)") $(FAULTS)

.PHONY: test-clients
test-clients: setup ## Run curl, urllib3 and an API fuzzer against a real Tidegate (MAX_EXAMPLES=50)
	tests/clients/prepare
	cargo build -p tidegate -p tidegate-workers --bins
	PYTHONDONTWRITEBYTECODE=1 "$(TARGET)/clients/venv/bin/python" tests/clients/run

.PHONY: lint
lint: ## Check formatting, lints and documentation
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

.PHONY: release
release: ## Build both programs as they are packaged: slow to build, small and fast
	cargo build --profile dist -p tidegate -p tidegate-workers --bins

.PHONY: bench
bench: setup ## Measure submit, drain and whole lives, in requests per second, positions at depth, queues behind messages that are not taken, how good ETAs are, learned timeouts, gates, and recovery
	cargo bench --bench throughput
	cargo bench --bench positions
	cargo bench --bench in_front
	cargo bench --bench eta_quality
	cargo bench --bench adaptive_timeout
	cargo bench --bench gates
	cargo bench --bench recovery

.PHONY: bench-peers
bench-peers: setup ## Measure beside other queues, which it installs outside the repository (SECONDS=1 ROUNDS=1 SUITES=keyed PEERS=raw1,fang)
	SECONDS_EACH="$(or $(SECONDS),10)" benches/peers/run

.PHONY: ci
ci: lint test-long mutants ## What CI runs
