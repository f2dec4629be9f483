import { availableParallelism } from 'node:os'

import { defineConfig } from 'vitest/config'

/** `unit` needs nothing but Node; the others need what their folder's name says, made by `make test`. */
export default defineConfig({
  test: {
    // By default one processor is left free; tests wait for others half of their time.
    maxWorkers: Math.max(2, availableParallelism()),
    projects: [
      {
        test: {
          name: 'unit',
          // They share nothing but code, and code is loaded once instead of 200 times.
          isolate: false,
          expect: { requireAssertions: true },
          // Of processors that others keep busy, too.
          testTimeout: 20_000,
          setupFiles: ['test/seed.ts'],
          include: [
            '{api,presets,completion,inventory,runtime,webhooks,controller,handler,launcher,cli,cluster}/**/*.test.ts',
            'test/unit/**/*.test.ts',
          ],
        },
      },
      {
        test: {
          name: 'dist',
          globalSetup: ['test/dist/executable.ts'],
          include: ['test/dist/**/*.test.ts'],
          testTimeout: 60_000,
        },
      },
      {
        test: {
          name: 'libvirt',
          setupFiles: ['test/seed.ts'],
          include: ['test/libvirt/**/*.test.ts'],
          testTimeout: 120_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: {
          name: 'apiserver',
          setupFiles: ['test/seed.ts'],
          include: ['test/apiserver/**/*.test.ts'],
          testTimeout: 400_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: {
          name: 'cluster',
          setupFiles: ['test/seed.ts'],
          include: ['test/cluster/**/*.test.ts'],
          testTimeout: 300_000,
          hookTimeout: 600_000,
          fileParallelism: false,
        },
      },
    ],
  },
})
