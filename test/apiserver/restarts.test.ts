import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { vmNameLabel } from '../../controller/launcher-pod.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { ApiError } from '../../runtime/api-error.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { virtualMachineConfigs } from '../../runtime/resource.ts'
import { sized } from '../soak.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { installProcesses } from './processes.ts'
import type { Processes } from './processes.ts'
import { startSimulatedNode } from './simulated-node.ts'
import type { SimulatedNode } from './simulated-node.ts'

/** Storms of start, stop and restart of the same config: never two VMs, and the last request wins. */
let api: TestApiServer
let processes: Processes
let node: SimulatedNode
let kube: KubeClient
/** The maximum number of pods that one config had at a time. */
let mostPods = 0

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api)
  await processes.startWebhooks('one')
  await processes.startController('controller')
  node = await startSimulatedNode(api)
  node.onChange(() => {
    const names = Object.values(Object.groupBy(node.pods(), ({ metadata }) => metadata.labels?.[vmNameLabel] ?? ''))
    mostPods = Math.max(mostPods, ...names.map((pods) => pods?.length ?? 0))
  })
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'user' })
})
afterAll(async () => {
  await kube?.close()
  await node?.stop()
  await processes?.stop()
  await api?.stop()
})

const configs = 20
const storms = sized(2, 10)
/** In milliseconds after the first: about the duration of a restart here. */
const longestPause = 400
const soon = { deadlineMs: 120_000 }

type Verb = 'start' | 'stop' | 'restart'
const verb = fc.constantFrom<Verb>('start', 'stop', 'restart')
const storm = fc.record({
  requests: fc.array(fc.record({ verb, afterMs: fc.integer({ min: 0, max: longestPause }) }), {
    minLength: 2,
    maxLength: 6,
  }),
  last: verb,
})

/** Resolves with 202 for 201, too. */
async function ask(name: string, request: Verb): Promise<{ code: number; message: string }> {
  const config = `namespaces/default/virtualmachineconfigs/${name}`
  const path = `/apis/subresources.virtset.io/v1alpha1/${config}/${request}${request === 'start' ? '?wait=true' : ''}`
  try {
    await kube.request('POST', path, {})
    return { code: 202, message: '' }
  } catch (error) {
    if (!(error instanceof ApiError) || error.status.code !== 409) throw error
    return error.status
  }
}

/** Whether a VM must exist after the last request had this response. */
function isWanted(last: Verb, { code, message }: { code: number; message: string }): boolean {
  if (code !== 409) return last !== 'stop'
  return last === 'start' ? /it is (already running|restarting)/.test(message) : false
}

async function weather(name: string, { requests, last }: { requests: { verb: Verb; afterMs: number }[]; last: Verb }) {
  await Promise.all(requests.map(async (request) => delay(request.afterMs).then(() => ask(name, request.verb))))
  const answer = await ask(name, last)
  const wanted = isWanted(last, answer) ? 'Running' : 'Stopped'
  const status = async () => (await kube.get(virtualMachineConfigs, { namespace: 'default', name })).status ?? {}
  const isSettled = async () => {
    const { phase, restart, instance } = await status()
    return phase === wanted && restart === undefined && (instance !== undefined) === (wanted === 'Running')
  }
  const what = `${name}: ${requests.map((request) => `${request.verb} ${request.afterMs}`).join(', ')}, ${last} (${JSON.stringify(answer)})`
  await until(isSettled, () => delay(50), { ...soon, describe: () => `${what} → ${wanted}` })
  return wanted
}

test(`${configs * storms} storms of requests: one VM or none, as the last one requested`, async () => {
  const spec = { domain: { type: 'qemu', memory: { unit: 'MiB', value: 8 }, os: { type: { os: 'hvm' } } } }
  const names = Array.from({ length: configs }, (_, count) => `c${count}`)
  const head = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineConfig' }
  const items = names.map((name) => ({ ...head, metadata: { name }, spec: { template: { spec } } }))
  const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items })
  await run([api.kubectl, '--kubeconfig', api.kubeconfig, 'apply', '-f', '-'], { input })
  const all = fc.sample(storm, configs * storms)
  const ends = await Promise.all(
    names.map(async (name, count) => {
      let wanted = ''
      for (const one of all.slice(count * storms, (count + 1) * storms)) wanted = await weather(name, one)
      return [name, wanted]
    }),
  )
  // The state is still the same: configs that were done first have waited for the others.
  const found = await kube.list(virtualMachineConfigs)
  const phases = found.items.map(({ metadata, status }) => [metadata.name, status?.phase])
  expect(Object.fromEntries(phases)).toEqual(Object.fromEntries(ends))
  const running = ends.filter(([, wanted]) => wanted === 'Running').map(([name]) => name)
  // The caches of this process may be a moment behind.
  const existing = () => new Set(node.vms().map(({ metadata }) => metadata.name))
  const describe = () => `${[...existing()].join()} instead of ${running.join()}`
  const areExpected = () => existing().symmetricDifference(new Set(running)).size === 0
  await until(areExpected, undefined, { ...soon, describe })
  expect(mostPods).toBe(1)
})
