import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { request } from 'undici'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { budgets, groupUidLabel } from '../../controller/budget.ts'
import { persistentVolumeClaims } from '../../controller/pod.ts'
import {
  virtualMachineConfigs,
  virtualMachineGroups,
  virtualMachines,
  virtualMachineSnapshots,
} from '../../runtime/resource.ts'
import type { KubeObject, Resource } from '../../runtime/resource.ts'
import { run } from '../../cluster/command.ts'
import { limitsOf } from '../confinement.ts'
import { storedVm } from '../stored-vm.ts'
import { until } from '../until.ts'
import { startApiServer } from '../apiserver/apiserver.ts'
import type { TestApiServer } from '../apiserver/apiserver.ts'
import { writeToEtcd } from '../apiserver/etcd.ts'
import { installProcesses } from '../apiserver/processes.ts'
import type { Processes, Replica } from '../apiserver/processes.ts'

/**
 * A tenant's objects, and the controller with half of the memory of its manifest: with all of it, the test would need
 * twice as many objects.
 */
let api: TestApiServer
let processes: Processes
let controller: Replica
const count = 120
const snapshotCount = 1000
const namespace = 'default'

const half: typeof limitsOf = (manifest, component) => {
  const { memoryBytes = 0, ...rest } = limitsOf(manifest, component)
  return { ...rest, memoryBytes: memoryBytes / 2 }
}

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api, { limitsFor: half })
})
afterAll(async () => {
  await processes?.stop()
  await api?.stop()
})

const text = 'x'.repeat(1000)
const domain = Object.fromEntries(Array.from({ length: 600 }, (_, index) => [`key-${index}`, text]))
const labels = { app: 'web' }
const template = { metadata: { labels }, spec: { domain } }
/** As the controller records them, for a VM with all the volumes that it can have. */
const volumes = Array.from({ length: 256 }, (_, index) => ({
  name: `volume-${index}`,
  claimName: `${index}-`.padEnd(253, 'c'),
  volumeSnapshotName: `${index}-`.padEnd(253, 's'),
}))
const annotations = { text: 'x'.repeat(250_000) }

function* objects(): Generator<readonly [Resource<KubeObject>, KubeObject]> {
  for (let index = 0; index < count; index++) {
    const metadata = { name: `large-${index}`, namespace, generation: 1, creationTimestamp: '2030-01-01T00:00:00Z' }
    const of = (spec: object, more: object = {}): KubeObject =>
      ({ metadata: { ...metadata, ...more, uid: randomUUID() }, spec }) as KubeObject
    yield [virtualMachineConfigs, of({ template })]
    yield [virtualMachineGroups, of({ replicas: 0, selector: { matchLabels: labels }, template })]
    yield [budgets, of({ minAvailable: 0 }, { labels: { [groupUidLabel]: 'u' }, annotations })]
  }
  for (let index = 0; index < snapshotCount; index++) {
    const metadata = { name: `snapshot-${index}`, namespace, uid: randomUUID(), generation: 1 }
    const status = { phase: 'Ready', sourceUID: 'u', volumes }
    yield [virtualMachineSnapshots, { metadata, spec: { source: { name: `vm-${index}` } }, status } as KubeObject]
  }
}

const isDown = () => controller.child.exitCode !== null || controller.child.signalCode !== null

test(`${count} configs, groups and budgets of up to 600 KB, ${snapshotCount} snapshots of 140 KB: the controller handles each in half of its memory`, async () => {
  await writeToEtcd(api, objects())
  controller = await processes.startController('controller')
  const metric = async (line: string): Promise<number> => {
    const { body } = await request(`http://127.0.0.1:${controller.healthPort}/metrics`)
    const found = (await body.text()).split('\n').find((one) => one.startsWith(`${line} `))
    return Number(found?.slice(line.length + 1) ?? NaN)
  }
  const handled = (queue: string) => metric(`virtset_queue{queue="${queue}",state="done"}`).catch(() => 0)
  await until(
    async () =>
      isDown() ||
      ((await handled('configs')) >= count &&
        (await handled('groups')) >= count &&
        (await handled('snapshots')) >= snapshotCount),
    () => delay(500),
    { deadlineMs: 240_000, describe: () => `${JSON.stringify(controller.usage())} ${controller.log().slice(-2000)}` },
  )
  expect([controller.usage().oomKills, isDown()], controller.log().slice(-2000)).toEqual([0, false])
}, 300_000)

test('a VM with 63 claims of 60,000 labels each: the controller reads them one after the other', async () => {
  const many = Object.fromEntries(Array.from({ length: 60_000 }, (_, index) => [`label-${index}`, '']))
  const names = Array.from({ length: 63 }, (_, index) => `claim-${index}`)
  const claimOf = (name: string): KubeObject => {
    const resources = { requests: { storage: '1Gi' } }
    const metadata = { name, namespace, uid: randomUUID(), labels: many }
    return { metadata, spec: { accessModes: ['ReadWriteOnce'], storageClassName: '', resources } } as KubeObject
  }
  const { spec, ...vm } = storedVm({ metadata: { name: 'claims', namespace, uid: randomUUID() } })
  const claims = names.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } }))
  function* large(): Generator<readonly [Resource<KubeObject>, KubeObject]> {
    for (const name of names) yield [persistentVolumeClaims, claimOf(name)]
  }
  await writeToEtcd(api, large())
  await writeToEtcd(api, [[virtualMachines, { ...vm, spec: { ...spec, volumes: claims } } as KubeObject]])
  const pods = [api.kubectl, '--kubeconfig', api.kubeconfig, 'get', 'pods', '-n', namespace, '-o', 'name']
  await until(
    async () => isDown() || (await run(pods)).includes('virt-launcher-claims-'),
    () => delay(500),
    { deadlineMs: 120_000, describe: () => `${JSON.stringify(controller.usage())} ${controller.log().slice(-2000)}` },
  )
  expect([controller.usage().oomKills, isDown()], controller.log().slice(-2000)).toEqual([0, false])
}, 300_000)
