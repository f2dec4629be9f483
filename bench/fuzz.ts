import { parseArgs } from 'node:util'
import { climb, type Found } from '../test/adversary.ts'
import { fuzz } from '../test/fuzz.ts'

/**
 * Sends hostile requests through admission. There are two kinds:
 *
 * Random mutations: every response must be well-formed and in time, without an exception or a polluted prototype.
 *
 *     npm run -s bench:fuzz                       more than 10^6 requests
 *     npm run -s bench:fuzz -- --seed 7 --count 1
 *
 * An adversary that searches for requests that cost as much CPU as possible for their size. The goal is 50 ms and 1 ms
 * for each KB: a score of 1.
 *
 *     npm run -s bench:fuzz -- --adversary        for 600 s of CPU
 *     npm run -s bench:fuzz -- --adversary --seed 7 --seconds 1
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    count: { type: 'string', default: '450000' },
    adversary: { type: 'boolean', default: false },
    seconds: { type: 'string', default: '600' },
  },
})
/** CPU time, so that other processes do not count. */
const spentMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

/** Warm up: functions that are not compiled yet cost more. */
const warmUpSeeds = [1_000_001, 1_000_002, 1_000_003]
const stepsOfClimb = 50

function runAdversary(): boolean {
  for (const seed of warmUpSeeds) climb(seed, stepsOfClimb, spentMs)
  const untilMs = spentMs() + Number(values.seconds) * 1000
  const print = ({ seed, score, cpuMs, kilobytes, attack }: Found) =>
    console.log(
      `seed ${seed}: score ${score.toFixed(2)}: ${cpuMs.toFixed(0)} ms for ${kilobytes.toFixed(1)} KB, ${attack.kind}, ${attack.way}`,
    )
  let worst: Found | undefined
  let seed = Number(values.seed)
  do {
    const found = climb(seed, stepsOfClimb, spentMs)
    if (worst === undefined || found.score > worst.score) {
      worst = found
      print(found)
    }
    seed += 1
  } while (spentMs() < untilMs)
  console.log(`${seed - Number(values.seed)} seeds; the worst:`)
  print(worst)
  console.log(JSON.stringify(worst.attack.object).slice(0, 2000))
  return worst.score <= 1
}

function runMutations(): boolean {
  const report = fuzz(Number(values.seed), Number(values.count), spentMs)
  console.log(JSON.stringify(report, null, 2))
  return report.faults.length === 0
}

if (!(values.adversary ? runAdversary() : runMutations())) process.exitCode = 1
