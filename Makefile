# Targets are relative paths: make cannot have spaces in them, and the folder this lies in may be named with some.
# Programs of .venv are always called as modules, because the first line of a script cannot hold a space either.
PYTHON := .venv/bin/python
PIP_INSTALL := $(PYTHON) -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Only the pip that constraints.txt names knows this option, not the one that a new environment comes with.
INSTALL := $(PIP_INSTALL) --build-constraint constraints.txt

# Another project's Python settings must not decide what is imported here, nor that a thousand processes compile it.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

# The stamps below share one .venv, and pip cannot install into it twice at once.
.NOTPARALLEL:
.PHONY: help demo test test-fast test-timing test-slow test-all check golden notebook docs gui agent screenshots man deb
.PHONY: container desktop try-packages sbom wheels clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo       the whole story on the built-in sample model (installs what it needs into .venv first)'
	@echo 'make test       the tests: five minutes, nothing in them measures time'
	@echo 'make test-fast  those that start no processes: a minute'
	@echo 'make test-timing  what measures time: nothing else may run on the machine'
	@echo 'make test-slow  whole searches, kill waves, sweeps: half an hour'
	@echo 'make test-all   all three'
	@echo 'make check      format, lint, types, licences, structure of the code'
	@echo 'make golden     renews tests/golden: the help and the records that the commands print'
	@echo 'make notebook   renews examples/optimize.ipynb from optimize.py'
	@echo 'make docs       the documentation as a site with search, in build/site'
	@echo 'make gui        the desktop app (installs Qt)'
	@echo 'make agent      the agent, serving on this machine only (Ctrl-C stops it)'
	@echo 'make screenshots  pictures of every page of the app, in build/screenshots'
	@echo 'make man        manual pages of edgeopt and edgeopt-agent, in build/man'
	@echo 'make deb        the agent as a Debian package with its SBOM, in dist; ARCH=arm64 for another architecture'
	@echo 'make container  the agent as an image, with podman; BASE=IMAGE for another base than one of debootstrap'
	@echo 'make sbom       the SBOM of the wheel with every extra, in dist'
	@echo 'make desktop    the app as one folder with its own Python, and as a Debian package, in dist'
	@echo 'make try-packages  as root, each package in a new Debian: half an hour; TARGETS="amd64 desktop" for some'
	@echo 'make wheels     whether all packages have wheels for Windows and macOS: two minutes'
	@echo 'make clean      removes .venv, caches and build outputs'

demo: .venv/.demo
	@$(PYTHON) -m edgeopt demo

# A file at a time on each of four workers, because many tests wait. A worker that dies is a failure at once:
# started anew, pytest would wait for it for ever.
TOGETHER := -n 4 --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# The files with such tests: only to collect all the others takes ten seconds.
marked = $$(grep -rl --include='test_*.py' 'mark[.]$(1)' tests | sort)

test: .venv/.dev
	@$(PYTHON) -m pytest $(TOGETHER) -m 'not slow and not timing' --ignore tests/structure

# What starts no processes and no window.
test-fast: .venv/.dev
	@$(PYTHON) -m pytest $(TOGETHER) -m 'not slow and not timing and not processes and not cold' \
	tests/bundle tests/data tests/graph tests/hw tests/profiles tests/test_[!kw]*.py

# One after another, because what runs beside a measurement changes it.
test-timing: .venv/.dev
	@$(PYTHON) -m pytest -m timing $(call marked,timing)

test-slow: .venv/.dev
	@$(PYTHON) -m pytest -n 2 --dist worksteal --max-worker-restart 0 -m 'slow and not timing' $(call marked,slow)

# Every part runs, whatever the ones before it say.
test-all: .venv/.dev
	@failed=0; for part in test test-timing test-slow; do $(MAKE) --no-print-directory $$part || failed=1; done; \
	exit $$failed

check: .venv/.dev
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@$(PYTHON) packaging/licences.py check
	@$(PYTHON) packaging/words.py
	@$(PYTHON) -m pytest -q tests/structure

golden: .venv/.dev
	@EDGEOPT_RENEW_GOLDEN=1 $(PYTHON) -m pytest -q tests/golden

notebook: .venv/.dev
	@$(PYTHON) packaging/make_notebook.py examples/optimize.py

# --strict: a broken link or anchor is a failure.
docs: .venv/.dev
	@$(PYTHON) -m zensical build --clean --strict
	@echo 'Open build/site/index.html in a browser.'

gui: .venv/.gui
	@sh packaging/system-packages.sh desktop
	@$(PYTHON) -m edgeopt_gui.main

agent: .venv/.dev
	@$(PYTHON) -m edgeopt_agent.main run

screenshots: .venv/.dev
	@$(PYTHON) -m tests.gui.screenshots build/screenshots
	@$(PYTHON) -m tests.gui.screenshots build/screenshots --scale 1.5

man: .venv/.dev
	@$(PYTHON) packaging/make_man.py build/man

deb: .venv/.dev
	@$(PYTHON) packaging/deb/build.py dist $(if $(ARCH),--architecture $(ARCH))

container: deb
	@sh packaging/container/build.sh '$(BASE)' $(PODMAN_OPTIONS)

# pip only resolves here, to learn the SHA-256 of each wheel that constraints.txt names.
sbom: .venv/.dev
	@$(PYTHON) -m build --wheel --no-isolation --outdir dist . >/dev/null
	@$(PIP_INSTALL) --dry-run --ignore-installed --only-binary :all: --report dist/report.json "$$(ls -t dist/edgeopt-*.whl | head -1)[all]"
	@$(PYTHON) packaging/sbom.py "$$(ls -t dist/edgeopt-*.whl | head -1)" --report dist/report.json
	@rm dist/report.json

wheels: .venv/.dev
	@$(PYTHON) packaging/check_wheels.py

desktop: .venv/.desktop
	@$(PYTHON) packaging/desktop/build.py dist

# Root's: it makes systems with debootstrap. A target whose tools are missing is skipped with the reason.
try-packages: .venv/.desktop
	@$(PYTHON) packaging/try_packages.py $(TARGETS)

.venv/.made: packaging/make-venv.sh constraints.txt
	@sh packaging/make-venv.sh
	@$(PIP_INSTALL) --upgrade pip
	@touch $@

.venv/.demo: .venv/.made pyproject.toml
	@echo 'Installing edgeopt and its runtimes into .venv; this takes a minute or two, once ...'
	@$(INSTALL) --editable '.[optimize,cpu,openvino]'
	@touch $@

.venv/.dev: .venv/.gui
	@sh packaging/system-packages.sh tests || echo "Tests that need it are skipped."
	@echo 'Installing the agent and the tools for tests and checks into .venv ...'
	@$(INSTALL) --editable '.[agent,fleet,images,lab,registry,text]' --group dev
	@touch $@

.venv/.desktop: .venv/.dev
	@$(INSTALL) --group desktop
	@touch $@

.venv/.gui: .venv/.demo
	@sh packaging/system-packages.sh gui
	@echo 'Installing Qt into .venv ...'
	@$(INSTALL) --editable '.[gui]'
	@touch $@

clean:
	@rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
