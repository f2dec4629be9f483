import { parseArgs } from 'node:util'
import fc from 'fast-check'
import { play } from '../test/reach/play.ts'
import { worlds } from '../test/reach/worlds.ts'

/**
 * Sends VMs through random worlds of presets, claims and changes. An independent oracle checks that none is stored with
 * host reach that no cluster preset states.
 *
 *     npm run -s bench:reach                                  10^6 VMs, some two hours
 *     npm run -s bench:reach -- --seed 7 --count 10000
 */
const { values } = parseArgs({
  options: { seed: { type: 'string', default: '1' }, count: { type: 'string', default: '1000000' } },
})
const count = Number(values.count)
const tally = { worlds: 0, sent: 0, stored: 0, reaching: 0, faults: 0 }
const worldsAtOnce = 500
const maxShown = 3

function summary(): string {
  const { user, system } = process.cpuUsage()
  return JSON.stringify({ ...tally, cpuSeconds: Math.round((user + system) / 1e6) })
}

for (let seed = Number(values.seed); tally.sent < count; seed += 1) {
  for (const world of fc.sample(worlds, { numRuns: worldsAtOnce, seed })) {
    const { sent, stored, reaching, fault } = play(world)
    tally.worlds += 1
    tally.sent += sent
    tally.stored += stored
    tally.reaching += reaching
    if (fault === undefined) continue
    tally.faults += 1
    if (tally.faults <= maxShown) console.error(JSON.stringify({ seed, fault, world }))
  }
  // The tally so far, because a run of hours can be interrupted.
  console.error(summary())
}
console.log(summary())
if (tally.faults > 0) process.exitCode = 1
