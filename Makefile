# cluster/main.ts does the work, run by Node 24 from node_modules, which the system's Node (>= 20) and npm install.
SHELL := /bin/bash
CLUSTER := node_modules/.bin/node cluster/main.ts

help:
	@echo 'make up        starts a real cluster on this host with virtset and the example VMs (NODES=2: two nodes)'
	@echo 'make down      removes the cluster and all its state'
	@echo 'make check     checks types, lint and format and runs the unit tests: about a minute'
	@echo 'make test      runs every test, on the cluster of make up'
	@echo 'make chaos     runs random operations, kills and outages on three nodes with an independent checker (MINUTES=20 SEED=1)'
	@echo 'make soak      runs the long tests of make test with all of their cases: 10,000 VMs, 200 storms'
	@echo 'make upgrade-test  upgrades a cluster from the previous version and back while VMs run: 10 minutes'
	@echo 'make install   builds images, pushes them to IMAGE_PREFIX=… and installs on the cluster of KUBECONFIG'
	@echo 'make images    builds the images'
	@echo 'make dist      builds dist/kubectl-vm: the command line in one file that needs no Node'
	@echo 'make library   builds dist/virtset-presets-VERSION.tgz: the npm package for webhooks of your own'
	@echo 'make release   builds dist/VERSION for VERSION=v0.2.0: manifests, chart, images, kubectl-vm, SBOMs, checksums (docs/release.md)'
	@echo 'make binaries  finds or builds the Kubernetes binaries and prints their path'
	@echo 'make rootfs    builds the root file system with libvirt for tests and prints its path'
	@echo 'make linux-guest  builds the disk of a small Linux for VMs of tests and prints its path'

up down install images binaries rootfs linux-guest upgrade-test: node_modules/.package-lock.json
	@$(CLUSTER) $@

check: node_modules/.package-lock.json
	@npm run --silent check

dist: node_modules/.package-lock.json
	@node_modules/.bin/node cli/generate-executable.ts

library: node_modules/.package-lock.json
	@node_modules/.bin/node library/generate-package.ts

chaos: node_modules/.package-lock.json
	@NODES=$${NODES:-3} $(CLUSTER) up
	@KUBE_BIN_DIR=$$($(CLUSTER) binaries 2>/dev/null) node_modules/.bin/node test/chaos/main.ts

soak: node_modules/.package-lock.json
	@SOAK=1 KUBE_BIN_DIR=$$($(CLUSTER) binaries 2>/dev/null) node_modules/.bin/vitest run \
	  --project=apiserver scale.test restarts.test group.test

test: node_modules/.package-lock.json
	@$(CLUSTER) test

# Environment: VERSION, and optionally IMAGE_PREFIX and DOWNLOADS.
release: node_modules/.package-lock.json
	@node_modules/.bin/node release/main.ts

node_modules/.package-lock.json: package-lock.json
	@if [ -d node_modules ]; then npm install --no-save --no-audit --no-fund --loglevel=error; else npm ci --no-audit --no-fund --loglevel=error; fi
	@touch $@

.PHONY: help up down install images binaries rootfs linux-guest upgrade-test check dist library test release chaos soak
