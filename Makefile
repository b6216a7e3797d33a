# A thin front for CMake: `make demo` and `make check` work on a fresh Debian 12.
#
#     make            build the release in build/release
#     make demo       install what is missing, build, train a small model on one rank and on four, show what else there is
#     make check      the same with a shorter training, then all tests
#     make bench-baseline   more peers from PyPI: Open MPI 5, MPICH 5, PyTorch for Gloo (3 GB)
#     make bench-peers   benchmark beside all peers that are there, in one run
#     make bench-check BASELINE=FILE   that run against an earlier one, FILE being its peers.json
#     make install PREFIX=/usr/local
#
# JOBS limits the compilers that run at once, TEST_JOBS the tests, CMAKE_FLAGS is handed to cmake.
BUILD       ?= build/release
PREFIX      ?= /usr/local
CMAKE_FLAGS ?=
JOBS        ?= $(shell nproc 2>/dev/null || echo 2)
TEST_JOBS   ?= $(shell expr 2 \* $(JOBS)) # a test waits for half of its time

all: build

deps:
	@scripts/install-deps.sh

configure:
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release $(CMAKE_FLAGS)

build: configure
	@cmake --build $(BUILD) --parallel $(JOBS)

demo: deps
	@$(MAKE) --no-print-directory build
	@scripts/demo.sh $(BUILD)

check: export DEMO_STEPS ?= 40
check: demo
	@ctest --test-dir $(BUILD) --parallel $(TEST_JOBS) --output-on-failure --repeat until-pass:2

bench-peers: build
	@cmake --build $(BUILD) --target bench-peers

bench-baseline:
	@bench/baseline/install.sh --build $(BUILD)

# Measures only where there is no result yet: `make bench-peers bench-check BASELINE=FILE` measures anew.
bench-check:
	@test -n "$(BASELINE)" || { echo "bench-check: name the earlier run: BASELINE=path/to/peers.json" >&2; exit 2; }
	@test -f $(BUILD)/bench/peers.json || $(MAKE) --no-print-directory bench-peers
	@python3 bench/peers/regress.py --baseline "$(BASELINE)" $(BUILD)/bench/peers.json

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	@cmake -E rm -rf $(BUILD)

.PHONY: all deps configure build demo check bench-baseline bench-peers bench-check install clean
