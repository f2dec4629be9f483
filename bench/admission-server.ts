import { parseVirtualMachine } from '../api/virtual-machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { inject } from '../presets/inject.ts'
import { systemClock } from '../runtime/clock.ts'
import { createLogger } from '../runtime/log.ts'
import { createMetrics } from '../runtime/metrics.ts'
import { createAuthority, issueLeaf } from '../webhooks/certificates/authority.ts'
import { createEngine } from '../webhooks/admission/engine.ts'
import { createAdmissionMetrics } from '../webhooks/metrics.ts'
import { createHandlers } from '../webhooks/admission/handler.ts'
import { cachesWithout } from '../webhooks/admission/caches.ts'
import { patchBetween, writePatch } from '../webhooks/admission/patch.ts'
import type { AdmissionRequest, AdmissionResult } from '../webhooks/admission/request.ts'
import { admissionRoutes } from '../webhooks/admission-routes.ts'
import { startServer } from '../webhooks/server.ts'
import { warmUp } from '../webhooks/admission/warm-up.ts'

/**
 * A server for the admission benchmarks, in its own process. Its argument selects the handler: `echo` allows; `naive`
 * sets three fields; `constant` completes only the first VM of each size and repeats the result; a number runs the
 * webhooks with that many presets, three of which select VMs with the label `bench: "yes"`; `inject-N` only applies N
 * such presets. Prints its port and authority as a line of JSON and serves until its standard input ends.
 */
const kind = process.argv[2] ?? 'echo'

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
  return createHandlers(engine, { controllers: [] })
}

const echo = () => ({ allowed: true }) as const

/** The fields of the three presets, without presets. */
const naive = (): AdmissionResult => ({
  allowed: true,
  patch: writePatch([
    { op: 'add', path: '/spec/domain/description', value: 'from a handler' },
    { op: 'add', path: '/spec/domain/vcpu', value: { value: 2 } },
    { op: 'add', path: '/spec/domain/devices/serials', value: [{ type: 'pty', target: { port: 0 } }] },
  ]),
})

function injecting(presets: number) {
  const candidates = candidatesOf(presets)
  const handle = ({ object, namespace: name }: AdmissionRequest): AdmissionResult => {
    const parsed = parseVirtualMachine(object)
    if ('causes' in parsed) return { allowed: false, causes: parsed.causes }
    const { vm } = parsed
    const { vm: injected } = inject(vm, { presets: candidates, namespace: { name, labels: {} } })
    return { allowed: true, patch: writePatch(patchBetween({ ...vm }, { ...injected })) }
  }
  return { mutate: handle, validate: handle }
}

/** The cost of a response as large as that of a completion, without completing. */
function constant() {
  const { mutate } = webhooks(100)
  const results = new Map<number, ReturnType<typeof mutate>>()
  const handle = (request: AdmissionRequest) => {
    const size = JSON.stringify(request.object).length
    const result = results.get(size) ?? mutate(request)
    results.set(size, result)
    return result
  }
  return { mutate: handle, validate: echo }
}

function handlersOf(name: string) {
  if (name === 'constant') return constant()
  if (name === 'echo') return { mutate: echo, validate: echo }
  if (name === 'naive') return { mutate: naive, validate: naive }
  return name.startsWith('inject-') ? injecting(Number(name.slice('inject-'.length))) : webhooks(Number(name))
}

const authority = await createAuthority(Date.now())
const { key, pem } = await issueLeaf(authority, ['localhost'], Date.now())
warmUp()
const shared = {
  metrics: createAdmissionMetrics(createMetrics()),
  log: createLogger({ process: 'bench', level: 'warn' }),
  clock: systemClock,
}
const routes = admissionRoutes({ ...shared, ...handlersOf(kind) })
const server = await startServer({ ...shared, certificate: { key, cert: pem }, routes }, 0, '127.0.0.1')
process.stdout.write(`${JSON.stringify({ port: server.port, authority: authority.pem })}\n`)
process.stdin.resume().on('end', () => process.exit(0))
