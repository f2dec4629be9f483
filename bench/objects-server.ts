import { kubeconfigAccess } from '../runtime/access.ts'
import { targetText, type Target } from '../api/object-preset.ts'
import { createServedKinds } from '../inventory/served-kinds.ts'
import type { ObjectTarget } from '../inventory/objects.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compileObjectPreset } from '../presets/object-preset.ts'
import { targetName, type ServedKind } from '../presets/target-check.ts'
import { systemClock } from '../runtime/clock.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { createMetrics } from '../runtime/metrics.ts'
import type { AdmissionHandler } from '../webhooks/admission-routes.ts'
import { writePatch } from '../webhooks/admission/patch.ts'
import { createAuthority, issueLeaf } from '../webhooks/certificates/authority.ts'
import { createAdmissionMetrics } from '../webhooks/metrics.ts'
import { webhooksFor } from '../webhooks/objects/configuration.ts'
import { createObjectHandlers } from '../webhooks/objects/handlers.ts'
import { admissionRoutes } from '../webhooks/admission-routes.ts'
import { startServer } from '../webhooks/server.ts'
import { fieldsOf, targets } from './objects-policy.ts'

/**
 * A server for the benchmark of presets for objects, in its own process: `objects-server.ts HANDLER KUBECONFIG`.
 * `echo` allows; `naive` sets the three fields; a number completes objects of each kind with that many presets, three
 * of which select objects with the label `presets-N: bench`. Prints a line of JSON with its port, its authority and the
 * webhooks that virtset would register for these presets, and serves until its standard input ends.
 */
const [, , name = 'echo', kubeconfig = ''] = process.argv

const echo: AdmissionHandler = () => ({ allowed: true })

const naive: AdmissionHandler = ({ kind }) => ({
  allowed: true,
  patch: writePatch(fieldsOf(kind).map(([path, value]) => ({ op: 'add', path: `/${path.join('/')}`, value }))),
})

const nested = (path: readonly string[], value: unknown): object =>
  path.reduceRight<unknown>((below, key) => ({ [key]: below }), value) as object

function entryOf(target: Target, served: ServedKind | undefined, count: number): ObjectTarget {
  if (served === undefined || 'causes' in served) throw new Error(JSON.stringify(served))
  const { kind, resource } = served
  const candidates = createCandidates()
  for (let index = 0; index < count; index++) {
    const fields = fieldsOf(target.kind)
    const [path, value] = fields[index % fields.length] ?? [[], undefined]
    const preset = {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'ObjectPreset',
      metadata: { name: `preset-${index}`, namespace: 'default' },
      spec: {
        target,
        selector: { matchLabels: { [`presets-${count}`]: index < 3 ? 'bench' : `team-${index}` } },
        object: nested(path, value),
      },
    }
    const compiled = compileObjectPreset(preset, new Map([[targetText(target), () => ({ kind })]]))
    if (!('preset' in compiled)) throw new Error(JSON.stringify(compiled.quarantined.causes))
    candidates.set(compiled.preset)
  }
  const metadata = { name: targetName(resource, target.apiVersion) }
  const spec = { ...target, failurePolicy: 'Fail' } as const
  const stored = { apiVersion: 'virtset.io/v1alpha1', kind: 'PresetTarget', metadata, spec } as const
  return { target: stored, kind, resource, candidates, quarantined: new Map() }
}

async function completing(count: number) {
  const kube = createKubeClient({ access: await kubeconfigAccess({ file: kubeconfig }), userAgent: 'bench' })
  const served = createServedKinds(kube)
  await served.refresh(targets)
  await kube.close()
  const entries = new Map(
    targets.map((target) => [targetText(target), entryOf(target, served.get(target), count)] as const),
  )
  const { complete } = createObjectHandlers({
    objects: {
      onChange: () => {},
      read: () => Promise.reject(new Error('not used')),
      target: (wanted) => entries.get(wanted),
      targets: () => entries.values(),
      storedPresets: () => [],
    },
    namespaces: {
      namespace: (namespace) => ({ name: namespace, labels: { 'kubernetes.io/metadata.name': namespace } }),
      newNamespaces: { wait: () => undefined },
    },
    mayAccess: () => Promise.resolve(false),
    clock: systemClock,
  })
  return {
    handle: complete,
    webhooks: webhooksFor(entries.values(), { namespaces: ['kube-system'], accounts: [] }),
  }
}

const { handle, webhooks } = /^\d+$/.test(name)
  ? await completing(Number(name))
  : { handle: name === 'naive' ? naive : echo, webhooks: [] }
const authority = await createAuthority(Date.now())
const { key, pem } = await issueLeaf(authority, ['localhost'], Date.now())
const shared = {
  metrics: createAdmissionMetrics(createMetrics()),
  log: createLogger({ process: 'bench', level: 'warn' }),
  clock: systemClock,
}
const routes = admissionRoutes({ ...shared, mutate: handle, validate: echo })
const server = await startServer({ ...shared, certificate: { key, cert: pem }, routes }, 0, '127.0.0.1')
process.stdout.write(`${JSON.stringify({ port: server.port, authority: authority.pem, webhooks })}\n`)
process.stdin.resume().on('end', () => process.exit(0))
