# `make` lists the commands. CI runs what these run.

.DEFAULT_GOAL := help
SHELL := /bin/bash

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

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

.PHONY: build
build: ## Build both programs, optimised
	cargo build --release --workspace

.PHONY: demo
demo: setup build ## Show it all working, in under a minute after the build
	target/release/tidegate demo

.PHONY: test
test: setup lint ## Run the lints and every test
	cargo test --workspace

.PHONY: model
model: ## Walk through every state of the model, and tell how many there are (TIDEGATE_MODEL=large: more, for minutes)
	TIDEGATE_MODEL="$(TIDEGATE_MODEL)" cargo test -p tidegate-model --lib -- --nocapture --test-threads 1

.PHONY: faults
faults: setup ## Break a running fleet at random, and check that every promise held (TIME=30m SEED=7 FAULTS=--failover)
	cargo build --release --workspace --bins
	target/release/tidegate-faults run --time "$(or $(TIME),30m)" $(if $(SEED),--seed "$(SEED)") $(FAULTS)

.PHONY: test-clients
test-clients: setup ## Run curl, urllib3 and an API fuzzer against a real Tidegate (MAX_EXAMPLES=50)
	tests/clients/prepare
	cargo build --workspace
	PYTHONDONTWRITEBYTECODE=1 target/clients/venv/bin/python tests/clients/run

.PHONY: lint
lint: ## Check formatting, lints and documentation
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

.PHONY: bench
bench: setup ## Measure submit, drain and whole lives, in requests per second, positions at depth, how good ETAs are, learned timeouts, gates, and recovery
	cargo bench --bench throughput
	cargo bench --bench positions
	cargo bench --bench eta_quality
	cargo bench --bench adaptive_timeout
	cargo bench --bench gates
	cargo bench --bench recovery

.PHONY: ci
ci: test ## What CI runs
