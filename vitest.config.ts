import { availableParallelism } from 'node:os'

import { defineConfig } from 'vitest/config'

const onCluster = {
  setupFiles: ['test/seed.ts'],
  testTimeout: 600_000,
  hookTimeout: 900_000,
  // Concurrent tests of a file wait for other processes.
  maxConcurrency: 8,
}

/** `unit` only needs Node; the others need what they are named after, which `make test` provides. */
export default defineConfig({
  test: {
    // By default vitest leaves one CPU free, but tests wait half of their time.
    maxWorkers: Math.max(2, availableParallelism()),
    projects: [
      {
        test: {
          name: 'unit',
          // Tests share only code, which is then loaded once instead of 200 times.
          isolate: false,
          expect: { requireAssertions: true },
          // Only a failure takes this long: `make test` runs them beside guests, with the CPU time that these leave.
          testTimeout: 600_000,
          hookTimeout: 600_000,
          setupFiles: ['test/seed.ts'],
          globalSetup: ['test/corpus/not-compared.ts'],
          include: [
            '{api,presets,completion,inventory,runtime,webhooks,controller,handler,launcher,cli,ui,cluster,library,release}/**/*.test.ts',
            'test/{unit,chaos}/**/*.test.ts',
          ],
        },
      },
      {
        test: {
          name: 'dist',
          globalSetup: ['test/dist/executable.ts'],
          include: ['test/dist/**/*.test.ts'],
          // Shells wait for two prompts, each for at most two minutes.
          testTimeout: 300_000,
        },
      },
      {
        test: {
          name: 'libvirt',
          setupFiles: ['test/seed.ts'],
          include: ['test/libvirt/**/*.test.ts'],
          testTimeout: 300_000,
          hookTimeout: 900_000,
        },
      },
      {
        test: {
          name: 'apiserver',
          setupFiles: ['test/seed.ts'],
          include: ['test/apiserver/**/*.test.ts'],
          testTimeout: 900_000,
          hookTimeout: 900_000,
        },
      },
      {
        test: {
          // Each uses all CPUs, and asserts that others still get their share of them.
          name: 'overload',
          include: ['test/overload/**/*.test.ts'],
          fileParallelism: false,
          testTimeout: 900_000,
          hookTimeout: 900_000,
        },
      },
      {
        test: {
          // Tests that replace or break parts of the cluster, one file after the other.
          name: 'cluster',
          include: ['test/cluster/*.test.ts'],
          fileParallelism: false,
          ...onCluster,
        },
      },
      {
        test: {
          // Tests that only use the cluster.
          name: 'cluster-parallel',
          include: ['test/cluster/parallel/*.test.ts'],
          ...onCluster,
        },
      },
      {
        test: {
          name: 'upgrade',
          include: ['test/upgrade/**/*.test.ts'],
          testTimeout: 2_400_000,
          hookTimeout: 600_000,
        },
      },
    ],
  },
})
