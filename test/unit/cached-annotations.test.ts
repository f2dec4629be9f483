import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import type { Persisted } from '../../runtime/resource.ts'
import type { KubeObject } from '../../runtime/resource.ts'
import { slimBudget } from '../../controller/budget.ts'
import { slimAttachment, slimPod } from '../../controller/slim-pod.ts'
import { configSlimmer, groupSlimmer } from '../../controller/slim-owner.ts'
import { vmSlimmer } from '../../controller/slim-vm.ts'
import { createStartingVms } from '../../controller/starting-vms.ts'
import { slimSnapshot } from '../../controller/snapshot-controller.ts'
import { slimVm } from '../../handler/slim-vm.ts'
import { slimPreset as slimObjectPreset } from '../../inventory/objects.ts'
import { slimPreset } from '../../inventory/watched.ts'

/** Each annotation of virtset that occurs in its code, with as long a value as users can give it. */
const root = resolve(import.meta.dirname, '../..')
const code = ['api', 'completion', 'controller', 'handler', 'inventory', 'presets', 'runtime', 'webhooks']
  .flatMap((folder) => readdirSync(resolve(root, folder), { encoding: 'utf8' }).map((name) => `${folder}/${name}`))
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
  .map((name) => readFileSync(resolve(root, name), 'utf8'))
const keys = new Set(code.flatMap((text) => [...text.matchAll(/'(virtset\.io\/[a-z-]+)'/g)].map(([, key]) => key)))
const annotations = Object.fromEntries([...keys].map((key) => [key, 'x'.repeat(250_000)]))

const template = { spec: { domain: { type: 'qemu' } } }
const status = { phase: 'Pending' }
const container = { name: 'launcher', image: 'i', env: [], resources: { requests: {}, limits: {} } }

test.each<[string, (object: never) => unknown, object]>([
  ['The controller of a VM', vmSlimmer(() => undefined, createStartingVms()), { spec: template.spec, status }],
  ['The handler of a VM', slimVm, { spec: template.spec, status }],
  ['The controller of a pod', slimPod, { spec: { containers: [container] }, status }],
  ['The controller of a pod that serves a volume', slimAttachment, { spec: { containers: [container] }, status }],
  ['The controller of a budget', slimBudget, { spec: {} }],
  ['The controller of a config', configSlimmer().slim, { spec: { template }, status: {} }],
  ['The controller of a group', groupSlimmer().slim, { spec: { template, selector: {} }, status: {} }],
  [
    'The controller of a snapshot',
    slimSnapshot,
    { spec: { source: { kind: 'VirtualMachine', name: 'a' } }, status: {} },
  ],
  ['An inventory of a preset', slimPreset, { spec: {}, status: {} }],
  ['An inventory of a preset for objects', slimObjectPreset, { spec: {}, status: {} }],
])('%s caches no long annotation', (_, slim, rest) => {
  const metadata = { name: 'n', namespace: 'default', uid: 'u', resourceVersion: '1', labels: {}, annotations }
  const cached = (slim as (object: Persisted<KubeObject>) => unknown)({
    apiVersion: 'v1',
    kind: 'X',
    metadata,
    ...rest,
  })
  expect([keys.size > 10, JSON.stringify(cached).length < 20_000]).toEqual([true, true])
})
