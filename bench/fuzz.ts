import { parseArgs } from 'node:util'
import { fuzz } from '../test/fuzz.ts'

/**
 * Mutated reviews through admission: every answer well-formed and in time, no exception, no prototype touched.
 *
 *     npm run -s bench:fuzz                       10^6 reviews and more
 *     npm run -s bench:fuzz -- --seed 7 --count 1
 */
const { values } = parseArgs({
  options: { seed: { type: 'string', default: '1' }, count: { type: 'string', default: '450000' } },
})
/** Of the processor, so that what else runs on the machine does not count. */
const spentMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
const report = fuzz(Number(values.seed), Number(values.count), spentMs)
console.log(JSON.stringify(report, null, 2))
if (report.faults.length > 0) process.exitCode = 1
