# What a person and CI call. Everything runs in .venv, which `make setup` makes.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
STAMP := $(VENV)/.installed
TOOLS := $(VENV)/tools
PIP := -m pip install --quiet --disable-pip-version-check --retries 10

.PHONY: setup setup-servers demo test test-rest test-all check bench servers docs chaos simulate oracle soak mutate fuzz bounds hostile histories audit lock sbom dist native test-native clean

setup: $(STAMP)

# `LOCKED=1 make setup`: the versions of requirements.lock and no others, each with its hash (Linux, Python 3.11).
$(STAMP): pyproject.toml
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(if $(LOCKED),$(RUN) $(PIP) --require-hashes -r requirements.lock)
	$(RUN) $(PIP) $(if $(LOCKED),--no-deps) --editable ".[all,docs,test]"
	touch $(STAMP)

setup-servers: setup
	$(RUN) -m tests.servers --fetch

# `make demo KILL=1` kills workers with -9 five times on the way; `OPEN=1` shows it in the console, with buttons that kill.
demo: setup
	$(VENV)/bin/sluicegate demo $(if $(KILL),--kill 5) $(if $(OPEN),--open)

# The core, the same tests every day: at most 10 minutes on two cores from a fresh clone.
test: setup setup-servers
	$(RUN) -m tests.stages core

# A part of all other tests, another part each day: each test once in two weeks.
test-rest: setup setup-servers
	$(RUN) -m tests.stages rest

# Every test but that of `make bounds`.
test-all: setup setup-servers
	$(RUN) -m tests.stages all

check: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(RUN) -m tests.house_report

# `PEERS=1`: job J1 next to Kafka Streams, Flink, Quix Streams, Bytewax and Faust, which the first run installs (Maven, a JDK and a network
# are needed); about an hour. `ROUNDS=5 RECORDS=1000000`. `PEERS=1 STEADY=1`: one long stream, measured after a warm-up. `RECORDS=20000000`.
# `PEERS=1 LATENCY=1`: at parts of the top speed.
bench: setup
	$(RUN) -m tests.bench$(if $(PEERS),.peers $(if $(STEADY),--steady) $(if $(LATENCY),--latency)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(RECORDS),--records $(RECORDS))

servers: setup setup-servers
	@exec $(RUN) -m tests.servers

# The pages of docs/ as a site: open build/site/index.html. Without --quiet, with which no warning would fail the build. It needs no `make setup`:
# without it, an environment of its own gets the extra `docs` and no other.
SITE := $(VENV)/site
docs:
	test -x $(VENV)/bin/mkdocs || test -x $(SITE)/bin/mkdocs || { $(PYTHON) -m venv $(SITE) && $(SITE)/bin/python $(PIP) ".[docs]"; }
	NO_MKDOCS_2_WARNING=1 $$(ls $(VENV)/bin/mkdocs $(SITE)/bin/mkdocs 2>/dev/null | head -1) build
	@echo build/site/index.html

# Every cell; the other targets run the chaos tests without SLUICEGATE_CHAOS.
chaos: setup setup-servers
	SLUICEGATE_CHAOS=whole $(RUN) -m pytest tests/chaos -n 3 --timeout 300

# The real engine under faults that seeds choose; `make test` runs a hundred of them. One alone: python -m tests.simulation --seed N
SEEDS ?= 10000
simulate: setup
	$(RUN) -m tests.simulation --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))
	$(RUN) -m tests.simulation --swarm --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))
	$(RUN) -m tests.simulation --dispatch --seeds $$(($(SEEDS) / 10)) $(if $(FIRST),--first $(FIRST))

# Random files of all clauses, against plain Python; `make test` plays six hundred of them. `make oracle SEEDS=1000 FIRST=50000`
oracle: setup
	$(RUN) -m tests.unit.oracle --seeds $(SEEDS) $(if $(FIRST),--first $(FIRST))

# 20 minutes on three brokers, kept as docs/proof/soak.md and .json. `make soak SECONDS=90 STORE=sqlite BROKERS=1 SEED=7`; with TWIN=receive
# a protection is taken out, and it succeeds when the report finds that.
# `CALM=1`: load without faults, in which no row may be written twice.
soak: setup setup-servers
	$(RUN) -m tests.soak $(if $(CALM),--calm --out .reports/soak-calm) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(STORE),--store $(STORE)) $(if $(BROKERS),--brokers $(BROKERS)) \
		$(if $(SEED),--seed $(SEED)) $(if $(TWIN),--twin $(TWIN) --out .reports/soak-twin) $(if $(OUT),--out $(OUT))

# Each guard of the protocol taken out in a copy of the tree; a quarter to half of an hour. Writes docs/proof/mutation.md.
mutate: setup setup-servers
	$(RUN) -m tests.mutation

# Ten times as much as `make test` tries, from the seed of the day (SLUICEGATE_FUZZ_SEED=n: from that one).
fuzz: setup
	SLUICEGATE_FUZZ=whole $(RUN) -m pytest tests/fuzz -n 2 --timeout 3600

# A million buffered items, a slow store, a broker that stays down: what memory a worker takes.
bounds: setup setup-servers
	SLUICEGATE_BOUNDS=whole $(RUN) -m pytest tests/bounds -s --timeout 3600

# Histories under faults, judged by a checker that knows nothing of us. `make histories MINUTES=10 STORE=redis,sqlite BROKERS=3 SEED=7`;
# with TWIN=fence a protection is taken out, and it succeeds when the checker finds that.
histories: setup setup-servers
	$(RUN) -m tests.histories $(if $(MINUTES),--minutes $(MINUTES)) $(if $(STORE),--store $(STORE)) $(if $(BROKERS),--brokers $(BROKERS)) \
		$(if $(SEED),--seed $(SEED)) $(if $(TWIN),--twin $(TWIN))

# Ten minutes of hostile records in all codecs beside 1,000 good ones a second. `make hostile SECONDS=60 SEED=7`
hostile: setup setup-servers
	$(RUN) -m tests.hostile $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

# What a linter says of our own code, and known vulnerabilities of the packages in requirements.lock. pip-audit asks a service for the latter:
# without it one line says so. `NETWORK=1`, before a release: that is a failure. Both tools are in an environment of their own, so they are
# not audited and not in the lock.
audit: setup
	test -x $(TOOLS)/bin/pip-audit || { $(PYTHON) -m venv $(TOOLS) && $(TOOLS)/bin/python $(PIP) bandit pip-audit; }
	test -x $(TOOLS)/bin/bandit || $(TOOLS)/bin/python $(PIP) bandit
	$(RUN) -m tests.audit $(TOOLS)/bin $(if $(NETWORK),--network)

# What is installed now, as the lock of what was tested; and the part of it that is in the image.
IN_IMAGE := sqlite,postgresql,mysql,redis,mongodb,avro,protobuf,json-schema,registry,regex,otel,otel-grpc,zones,msk-iam,azure,gcp
lock: setup
	mkdir -p .reports
	$(RUN) -m pip freeze --exclude-editable > .reports/constraints.txt
	$(RUN) $(PIP) --dry-run --ignore-installed --report .reports/pip.json -c .reports/constraints.txt --editable ".[all,docs,test]"
	$(RUN) -m tests.lock requirements.lock < .reports/pip.json
	sed -n 's/^\([^ #]*==[^ ]*\).*/\1/p' requirements.lock > .reports/constraints.txt
	$(RUN) $(PIP) --dry-run --ignore-installed --report .reports/image.json -c .reports/constraints.txt --editable ".[$(IN_IMAGE)]"
	$(RUN) -m tests.lock deploy/requirements.lock < .reports/image.json

# What is installed, as a CycloneDX document: .reports/sbom.json. Its maker has an environment of its own, so it is not in it.
sbom: setup
	mkdir -p .reports
	test -x $(TOOLS)/bin/cyclonedx-py || { $(PYTHON) -m venv $(TOOLS) && $(TOOLS)/bin/python $(PIP) cyclonedx-bom; }
	$(TOOLS)/bin/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file .reports/sbom.json $(RUN)

# The optional native reader of docs/native.md, for this environment. It needs cargo 1.85 or newer.
native: setup
	CARGO_TARGET_DIR=$(CURDIR)/build/native $(RUN) $(PIP) --no-deps --force-reinstall ./native

# It is the same as Python, and the tests of Avro pass with it.
test-native: native
	SLUICEGATE_NATIVE=require $(RUN) -m pytest tests/native tests/unit/schemas/test_avro.py tests/unit/testing/test_avro.py \
		tests/unit/engine/test_registry.py tests/fuzz/test_avro.py tests/integration/test_avro.py -n 2 --timeout 300

# The sdist, and the wheel that is built of it, in dist/. The version is that of the newest tag. Each build of a commit gives the same bytes.
dist:
	test -x $(TOOLS)/bin/twine || { $(PYTHON) -m venv $(TOOLS) && $(TOOLS)/bin/python $(PIP) build twine; }
	rm -rf dist
	$(TOOLS)/bin/python -m build
	$(TOOLS)/bin/twine check --strict dist/*

clean:
	rm -rf .server-logs .servers .reports .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info $(VENV)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
