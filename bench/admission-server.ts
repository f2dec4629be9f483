import { parseMachine } from '../api/machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { inject } from '../presets/inject.ts'
import { systemClock } from '../runtime/clock.ts'
import { createLogger } from '../runtime/log.ts'
import { createMetrics } from '../runtime/metrics.ts'
import { createAuthority, issueLeaf } from '../webhooks/authority.ts'
import { createEngine } from '../webhooks/engine.ts'
import { createReviewMetrics } from '../webhooks/metrics.ts'
import { createReviewers } from '../webhooks/reviewers.ts'
import { cachesWithout } from '../webhooks/caches.ts'
import { patchBetween, writePatch } from '../webhooks/patch.ts'
import type { Review, Verdict } from '../webhooks/review.ts'
import { startServer } from '../webhooks/server.ts'
import { warmUp } from '../webhooks/warm-up.ts'

/**
 * One server of the benches of admission, in a process of its own: `echo`; `naive`, which writes three fields; `constant`, which answers
 * every VM with what the webhooks said of the first of its size; the webhooks with so many presets of
 * which three select VMs with the label `bench: "yes"`; or `inject-N`, of all that only the presets. Says its port and authority in a line of JSON, and serves until its input ends.
 */
const what = process.argv[2] ?? 'echo'

const preset = (index: number) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachinePreset',
  metadata: { name: `preset-${index}`, namespace: 'default' },
  spec: {
    selector: { matchLabels: index < 3 ? { bench: 'yes' } : { [`label-${index % 50}`]: `value-${index}` } },
    domain: [
      { devices: { serials: [{ type: 'pty', target: { port: 0 } }] } },
      { vcpu: { value: 2 } },
      { description: 'from a preset' },
    ][index % 3],
  },
})

function candidatesOf(presets: number) {
  const candidates = createCandidates()
  for (let index = 0; index < presets; index++) {
    const compiled = compilePreset(preset(index))
    if (!('preset' in compiled)) throw new Error(JSON.stringify(compiled.quarantined.causes))
    candidates.set(compiled.preset)
  }
  return candidates
}

function webhooks(presets: number) {
  const caches = { ...cachesWithout(systemClock), candidates: candidatesOf(presets) }
  const engine = createEngine(caches, () => Promise.resolve(false))
  return createReviewers(engine, { controllers: [] })
}

const echo = () => ({ allowed: true }) as const

/** What the three presets say, without asking anybody. */
const naive = (): Verdict => ({
  allowed: true,
  patch: writePatch([
    { op: 'add', path: '/spec/domain/description', value: 'from a handler' },
    { op: 'add', path: '/spec/domain/vcpu', value: { value: 2 } },
    { op: 'add', path: '/spec/domain/devices/serials', value: [{ type: 'pty', target: { port: 0 } }] },
  ]),
})

function injecting(presets: number) {
  const candidates = candidatesOf(presets)
  const judge = ({ object, namespace: name }: Review): Verdict => {
    const parsed = parseMachine(object)
    if ('causes' in parsed) return { allowed: false, causes: parsed.causes }
    const { machine } = parsed
    const { machine: injected } = inject(machine, { presets: candidates, namespace: { name, labels: {} } })
    return { allowed: true, patch: writePatch(patchBetween({ ...machine }, { ...injected })) }
  }
  return { mutate: judge, validate: judge }
}

/** What it costs to say as much as a completion does, without completing. */
function constant() {
  const { mutate } = webhooks(100)
  const said = new Map<number, ReturnType<typeof mutate>>()
  const judge = (review: Review) => {
    const size = JSON.stringify(review.object).length
    const verdict = said.get(size) ?? mutate(review)
    said.set(size, verdict)
    return verdict
  }
  return { mutate: judge, validate: echo }
}

function reviewersOf(name: string) {
  if (name === 'constant') return constant()
  if (name === 'echo') return { mutate: echo, validate: echo }
  if (name === 'naive') return { mutate: naive, validate: naive }
  return name.startsWith('inject-') ? injecting(Number(name.slice('inject-'.length))) : webhooks(Number(name))
}

const authority = await createAuthority(Date.now())
const { key, pem } = await issueLeaf(authority, ['localhost'], Date.now())
warmUp()
const server = await startServer(
  {
    certificate: { key, cert: pem },
    ...reviewersOf(what),
    metrics: createReviewMetrics(createMetrics()),
    log: createLogger({ process: 'bench', level: 'warn' }),
    clock: systemClock,
  },
  0,
  '127.0.0.1',
)
process.stdout.write(`${JSON.stringify({ port: server.port, authority: authority.pem })}\n`)
process.stdin.resume().on('end', () => process.exit(0))
