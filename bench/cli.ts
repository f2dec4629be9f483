import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The time of `complete` for one small VM in a new process, compared with a Node that does nothing: the stand-alone
 * executable (`make dist`) and the checkout. Node caches the compiled code of the latter only with
 * `NODE_COMPILE_CACHE=DIRECTORY`.
 *
 *     npm run -s bench:cli [-- --json]
 */
const root = join(import.meta.dirname, '..')
const words = [
  'complete',
  join(root, 'manifests/examples/testvm.yaml'),
  '--presets',
  join(root, 'manifests/examples/preset-small.yaml'),
]
const executable = join(root, 'dist/kubectl-vm')

const rounds = 15

function once(program: string, rest: readonly string[]): number {
  const startNs = process.hrtime.bigint()
  const { status, stderr } = spawnSync(program, rest)
  if (status !== 0) throw new Error(`${program} ended with ${status}: ${stderr.toString()}`)
  return Number(process.hrtime.bigint() - startNs) / 1e6
}

const candidates: readonly (readonly [string, string, readonly string[]])[] = [
  ['node -e 0', process.execPath, ['-e', '0']],
  ...(existsSync(executable) ? [['dist/kubectl-vm', executable, words] as const] : []),
  ['node cli/main.ts', process.execPath, [join(root, 'cli/main.ts'), ...words]],
]

// Interleaved, so that other load on the host affects all equally; the first round fills caches.
const times = new Map<string, number[]>(candidates.map(([name]) => [name, []]))
for (let round = 0; round <= rounds; round++) {
  for (const [name, program, rest] of candidates) {
    const ms = once(program, rest)
    if (round > 0) times.get(name)?.push(ms)
  }
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
const base = median(times.get('node -e 0') ?? [])
const results = [...times].map(([name, all]) => ({
  name,
  ms: Number(median(all).toFixed(1)),
  timesNode: Number((median(all) / base).toFixed(2)),
}))
if (process.argv.includes('--json')) console.log(JSON.stringify(results))
else console.table(results)
