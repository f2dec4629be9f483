import fc from 'fast-check'

/**
 * Properties are tested with the same values each time, so that a failure is caused by the change under test. To search
 * further, set a seed and a factor: `PROPERTY_SEED=7 PROPERTY_RUNS=1000 npm run unit`.
 */
fc.configureGlobal({
  seed: Number(process.env['PROPERTY_SEED'] ?? 1),
  ...(process.env['PROPERTY_RUNS'] === undefined ? {} : { numRuns: Number(process.env['PROPERTY_RUNS']) }),
})
