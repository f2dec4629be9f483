# Everything is done by cluster/main.ts, which Node 24 of node_modules runs; system Node (>= 20) and npm bring that one.
SHELL := /bin/bash
CLUSTER := node_modules/.bin/node cluster/main.ts

help:
	@echo 'make up        a real cluster on this machine, virtset on it, the example VM running (NODES=2: two nodes)'
	@echo 'make down      ends it and leaves nothing'
	@echo 'make check     types, lint, format, tests that need nothing: seconds'
	@echo 'make test      every test there is, on the cluster of make up'
	@echo 'make install   builds, pushes to IMAGE_PREFIX=… and installs on the cluster of KUBECONFIG'
	@echo 'make images    builds the images'
	@echo 'make dist      dist/kubectl-vm: the command line in one file that needs no Node'
	@echo 'make binaries  finds or builds the Kubernetes binaries, prints where they are'
	@echo 'make rootfs    prepares the root file system with libvirt for tests, prints where it is'

up down install images binaries rootfs: node_modules/.package-lock.json
	@$(CLUSTER) $@

check: node_modules/.package-lock.json
	@npm run --silent check

dist: node_modules/.package-lock.json
	@node_modules/.bin/node cli/generate-executable.ts

test: node_modules/.package-lock.json
	@$(CLUSTER) test

node_modules/.package-lock.json: package-lock.json
	@if [ -d node_modules ]; then npm install --no-save --no-audit --no-fund --loglevel=error; else npm ci --no-audit --no-fund --loglevel=error; fi
	@touch $@

.PHONY: help up down install images binaries rootfs check dist test
