# Every target sets up what it needs: a virtual environment in .venv with the package, and for all but `demo` its tools.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGE := $(VENV)/.surebayes-package
STAMP := $(VENV)/.surebayes-tools
KERNELS := $(VENV)/.surebayes-kernels

.PHONY: setup demo kernels quick generated test test-slow test-scikit-learn test-faults test-spark test-integration test-page test-postgres test-disasters check bench
.PHONY: bench-cluster clean sanitize fuzz fuzz-kernels build/sanitize bench-peers format-c docs dist test-sdist test-site changelog bench-check newcomer lock deb test-package try-operations

# Sources of the kernels: one file or one folder per kernel.
KERNEL_FILES := $(wildcard src/surebayes/kernels/*.[ch] src/surebayes/kernels/*/*.[ch])
C_FILES := $(KERNEL_FILES) $(wildcard fuzz/*.c)

# The package and its dependencies, for `make demo` and all other targets. An editable install has its kernels beside the sources.
$(PACKAGE): pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(STAMP): pyproject.toml setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(PACKAGE) $@

# Rebuild the kernels whose files changed, in src.
$(KERNELS): $(KERNEL_FILES) | $(STAMP)
	SUREBAYES_KERNELS=required $(BIN)/python -W ignore setup.py --quiet build_ext --inplace --parallel 3
	touch $@

setup: $(STAMP) $(KERNELS)

kernels: $(KERNELS)

demo: $(PACKAGE)
	$(BIN)/surebayes demo

# Lint, types and tests of the changes since BASE, committed or not, in less than 20 seconds.
BASE ?= main
quick: setup
	$(BIN)/python tools/quick.py --base $(BASE)

# The parts of the docs that cog writes, the tables of the kernels, the golden values of term weights.
generated: setup
	$(BIN)/python -m cogapp -r $(GENERATED)
	$(BIN)/python tools/kernel_tables.py
	$(BIN)/python tools/golden.py

GENERATED := ARCHITECTURE.md $(wildcard docs/*.md docs/papers/*.md) README.md

# The default suite. COVERAGE=1 also records the lines that it runs, for `make check`, and takes much longer.
test: setup
	rm -f .coverage
	$(BIN)/python -m compileall -q src/surebayes  # not at each start of a command, where Python may write no bytecode
	$(BIN)/python -m pytest -n 2 -m "not slow" $(if $(COVERAGE),--cov=surebayes --cov-report=)

# Real clients and mail servers from Debian's packages, on loopback. Exim is unpacked, not installed: its package and postfix's conflict.
MAIL_PROGRAMS := spamc spamd spamass-milter postfix dovecot-imapd dovecot-lmtpd dovecot-sieve swaks rspamd procmail maildrop
EXIM_LIBRARIES := libmariadb3 libidn12 libspf2-2 libpq5

test-integration: setup
	DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $(MAIL_PROGRAMS) $(EXIM_LIBRARIES) || \
	  echo "not everything could be installed: tests that need it are skipped"
	mkdir -p build/exim && cd build/exim && { test -x root/usr/sbin/exim4 || { apt-get download exim4-daemon-heavy && \
	  dpkg -x exim4-daemon-heavy_*.deb root; } || echo "no exim: its test is skipped"; }
	id Debian-exim >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin Debian-exim
	$(BIN)/python -m pytest -m integration tests/integration

# A journal that hosts share, on a PostgreSQL of Debian's package that the tests start on a unix socket.
test-postgres: setup
	ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || DEBIAN_FRONTEND=noninteractive apt-get install -y \
	  --no-install-recommends postgresql || echo "no PostgreSQL: tests that need it are skipped"
	$(BIN)/python -m pytest -n 2 -m postgres tests/filter/shared tests/filter/test_host_layers.py tests/cli/test_cli_hosts.py

# 2,001 operations of three hosts; SUREBAYES_SEED=N for another sequence of disasters.
test-disasters: setup
	SUREBAYES_DISASTERS=667 $(BIN)/python -m pytest -n 0 -s -m postgres tests/filter/shared/test_disasters.py

# The page in Chromium from Debian's package, driven by playwright; axe-core, from the registry of npm, checks accessibility.
test-page: setup
	command -v chromium >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends chromium || \
	  echo "no chromium: tests that need it are skipped"
	$(BIN)/python -m pip install --quiet playwright
	mkdir -p build/axe && cd build/axe && { test -f package/axe.min.js || { npm pack --silent axe-core && tar xzf axe-core-*.tgz; } || \
	  echo "no axe-core: tests that need it are skipped"; }
	$(BIN)/python -m pytest -m browser tests/browser

test-slow: setup
	$(BIN)/python -m pytest -n 2 -m slow

# Faults at every operation on files: a killed process, a failing disk, a full disk, a power failure.
test-faults: setup
	$(BIN)/python -m pytest -n 2 -m "slow or not slow" tests/filter/test_faults.py tests/filter/test_crash.py

# Pages of the site in Chromium, in light and dark colours, at desktop and phone width. Needs npm for axe-core, which checks contrast.
test-site: docs
	command -v chromium >/dev/null || apt-get install -y --no-install-recommends chromium || \
	  { echo "make test-site needs Chromium: install it and run again"; exit 1; }
	$(BIN)/python -m pip install --quiet playwright
	test -f build/axe/package/axe.min.js || { mkdir -p build/axe && cd build/axe && npm pack --silent axe-core && tar xzf axe-core-*.tgz; }
	$(BIN)/python -m pytest -q -m site tests/documentation

# Fits and scores on a local Spark with two executors. Needs a Java runtime (installed here where apt-get can).
test-spark: setup
	command -v java >/dev/null || apt-get install -y --no-install-recommends openjdk-17-jre-headless || \
	  { echo "make test-spark needs a Java runtime: install one and run again"; exit 1; }
	$(BIN)/python -m pip install --quiet --editable '.[dev,spark]'
	SUREBAYES_SPARK=1 $(BIN)/python -m pytest -m spark tests/cluster/test_on_spark.py

# scikit-learn's tests of vectorizers and Naive Bayes, and its text examples, run on our classes.
test-scikit-learn: setup
	$(BIN)/python -m pip install --quiet plotly  # one of the examples draws with it
	$(BIN)/python tools/scikit_learn_tests.py
	$(BIN)/python tools/scikit_learn_examples.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/structure.py --check
	$(BIN)/python tools/words.py --check
	$(BIN)/python -m cogapp --check $(GENERATED)
	$(BIN)/python tools/kernel_tables.py --check
	$(BIN)/python tools/golden.py --check
	$(BIN)/clang-format --dry-run --Werror $(C_FILES)
	@if [ -f .coverage ]; then $(BIN)/python -m coverage report --skip-covered --sort=cover; \
	else echo "Coverage isn't checked: make test COVERAGE=1 measures it."; fi

bench: setup
	$(BIN)/python benchmarks/run.py

# The same ratios compared with benchmarks/baseline.json: fails if one fell by more than 30%. BENCHMARKS selects benchmarks;
# `python benchmarks/check.py --keep` rewrites the file.
bench-check: setup
	$(BIN)/python benchmarks/check.py $(BENCHMARKS)

# The site, into build/site. With --strict a dead link or a page outside the navigation is an error.
docs: setup
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html"

# The source archive and the wheel, into dist/; then the wheel alone in a fresh environment, with its dependencies.
dist: setup
	rm -rf dist && $(BIN)/python tools/man_pages.py
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python tools/check_wheel.py dist

# The source archive, built and tested in an empty environment as by a packager. SDIST_TESTS selects tests.
SDIST_TESTS ?= tests
test-sdist: dist
	$(BIN)/python tools/check_sdist.py dist $(SDIST_TESTS)

# ---- the Debian package and the container: packaging/

PACKAGE_TOOLS := build/package-tools
SYSTEM_PYTHON ?= /usr/bin/python3

$(PACKAGE_TOOLS)/.ready:
	$(SYSTEM_PYTHON) -m venv $(PACKAGE_TOOLS)
	$(PACKAGE_TOOLS)/bin/pip install --quiet --disable-pip-version-check build cyclonedx-bom pip-tools
	touch $@

# Pinned versions of the dependencies, with hashes, for this system's Python: after a change of dependencies, or to update them.
lock: $(PACKAGE_TOOLS)/.ready
	$(PACKAGE_TOOLS)/bin/pip-compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
	  --no-emit-options --strip-extras --no-annotate --no-header --extra server --extra receipts -o packaging/requirements.lock pyproject.toml

# A Debian package for this system's release, into dist/.
deb: setup $(PACKAGE_TOOLS)/.ready
	rm -rf build/wheel && $(BIN)/python tools/man_pages.py
	$(BIN)/python -m build --wheel --outdir build/wheel .
	rm -rf build/deb && TOOLS=$(PACKAGE_TOOLS) sh packaging/build_deb.sh build/wheel/*.whl build/deb
	mkdir -p dist && cp build/deb/*.deb dist/

# Installed, configured, trained, served, upgraded, downgraded, removed and purged in a clean Debian. Needs root and debootstrap.
test-package: deb
	rm -rf build/before && dpkg-deb -R build/deb/*.deb build/before && sed -i 's/^Version: .*/Version: 0.0.1/' build/before/DEBIAN/control
	dpkg-deb --root-owner-group -Zzstd -z1 --build build/before build/before.deb && rm -rf build/before
	$(SYSTEM_PYTHON) packaging/test_package.py build/before.deb build/deb/*.deb

# The page for administrators, followed literally in a clean Debian, from the package to a message in Junk, with its time. Needs
# root and debootstrap.
try-operations: deb
	$(SYSTEM_PYTHON) packaging/try_operations.py build/deb/*.deb

# The changelog of the next release; with VERSION=1.2.0, CHANGELOG.md and CITATION.cff are written.
changelog: setup
	$(BIN)/python tools/changelog.py $(VERSION)

# README and each tutorial, followed literally in a fresh clone of the last commit and a new environment.
newcomer:
	$(PYTHON) tools/newcomer.py

clean:
	rm -rf $(VENV) build dist src/*.egg-info src/surebayes/_version.py src/surebayes/kernels/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis

format-c: setup
	$(BIN)/clang-format -i $(C_FILES)

# The kernels built with AddressSanitizer and UBSan, in build/sanitize, and their tests on that copy.
SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
KERNEL_FLAGS = -shared -fPIC -std=c11 -fvisibility=hidden -DPy_LIMITED_API=0x030b0000 -I$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('include'))")

SANITIZED = LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so) $$($(CC) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=2048 PYTHONMALLOC=malloc PYTHONPATH=build/sanitize

build/sanitize: setup
	rm -rf build/sanitize && mkdir -p build/sanitize
	cp -r src/surebayes build/sanitize/ && rm -f build/sanitize/surebayes/kernels/*.so
	for name in text mail pool; do \
	  $(CC) $(KERNEL_FLAGS) $(SANITIZE) src/surebayes/kernels/$$name/*.c -o build/sanitize/surebayes/kernels/_$$name.abi3.so -lm || exit 1; done

sanitize: build/sanitize
	$(SANITIZED) $(BIN)/python -m pytest -q -p no:cacheprovider -m "not slow" tests/kernels tests/text tests/mail tests/datasets/test_sources.py tests/pool tests/filter/layers tests/filter/store/test_model_folder.py tests/filter/test_bulk_judging.py tests/filter/test_training.py

# Recorded calls of every entry point of the kernels, with their arguments altered, on the kernels with sanitizers.
fuzz-kernels: build/sanitize
	$(SANITIZED) $(BIN)/python fuzz/recorded_calls.py --seconds $(FUZZ_SECONDS)

# Coverage-guided fuzzing of the kernels and of the mail reader, compared with Python, FUZZ_SECONDS each: first the C code, with
# sanitizers, then the Python reader. Failing inputs stay in fuzz/regressions, where the tests read them. Needs clang with
# libFuzzer (installed here where apt-get can).
FUZZ_SECONDS ?= 60
FUZZ_CASES ?= $(basename $(notdir $(wildcard fuzz/*_cases.py)))
EMBED = $$($(BIN)/python -c "import sysconfig as s; v = s.get_config_var; print('-I' + s.get_path('include'), '-L' + v('LIBDIR'), '-Wl,-rpath,' + v('LIBDIR'), '-lpython' + v('LDVERSION'), v('LIBS'), '-lm')")

fuzz: setup
	command -v clang >/dev/null || apt-get install -y clang || { echo "make fuzz needs clang with libFuzzer: install it and run again"; exit 1; }
	mkdir -p build/fuzz
	clang -g -O1 -std=c11 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
	  fuzz/embed.c $(wildcard src/surebayes/kernels/*.c src/surebayes/kernels/*/*.c) -o build/fuzz/embed $(EMBED)
	for cases in $(FUZZ_CASES); do \
	  mkdir -p .fuzz/$$cases fuzz/regressions/$$cases && PYTHONPATH=src:fuzz $(BIN)/python fuzz/seed.py $$cases .fuzz/$$cases && \
	  PYTHONPATH=src:fuzz PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 SUREBAYES_FUZZ=$$cases \
	  build/fuzz/embed -max_total_time=$(FUZZ_SECONDS) -max_len=2000 -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
	  -artifact_prefix=fuzz/regressions/$$cases/ .fuzz/$$cases || exit 1; \
	done
	$(BIN)/python fuzz/read_message.py --seconds $(FUZZ_SECONDS)

# The programs that the benchmarks compare with, installed where possible, and the benchmark of whole mails.
bench-peers: setup
	-command -v bogofilter >/dev/null || apt-get install -y bogofilter
	-$(BIN)/python -m pip install --quiet vowpalwabbit fasttext-wheel
	$(BIN)/python benchmarks/run.py peers

# Fits beyond one machine: curves of time and memory, and the overhead of Dask and Spark over plain processes. At full size: hours
# and some 3 GB of disk; CLUSTER_DOCUMENTS makes it smaller.
CLUSTER_DOCUMENTS ?= 3000000
bench-cluster: setup
	$(BIN)/python -m pip install --quiet --editable '.[dev,spark]'
	$(BIN)/python benchmarks/cluster.py curve --documents $(CLUSTER_DOCUMENTS)
	$(BIN)/python benchmarks/cluster.py overhead --documents $$(( $(CLUSTER_DOCUMENTS) * 3 / 4 ))
	$(BIN)/python benchmarks/cluster.py mail --documents $$(( $(CLUSTER_DOCUMENTS) * 765 / 3000 ))
	$(BIN)/python benchmarks/cluster.py pools --documents $$(( $(CLUSTER_DOCUMENTS) / 75 ))
	$(BIN)/python benchmarks/cluster.py judging --documents $$(( $(CLUSTER_DOCUMENTS) / 50 ))
	$(BIN)/python benchmarks/cluster.py draw
	$(BIN)/python -m cogapp -r docs/scale.md
