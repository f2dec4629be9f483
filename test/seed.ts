import fc from 'fast-check'

/**
 * Properties are tried with the same values each time, so that a red run is about the change that it judges. To look further, give a seed
 * and a factor: `PROPERTY_SEED=7 PROPERTY_RUNS=1000 npm run unit`.
 */
fc.configureGlobal({
  seed: Number(process.env['PROPERTY_SEED'] ?? 1),
  ...(process.env['PROPERTY_RUNS'] === undefined ? {} : { numRuns: Number(process.env['PROPERTY_RUNS']) }),
})
