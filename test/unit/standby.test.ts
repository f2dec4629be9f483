import { Session } from 'node:inspector/promises'
import { afterEach, expect, test } from 'vitest'
import { createEngine } from '../../controller/engine.ts'
import { cacheRefusals } from '../../controller/cached-refusals.ts'
import { startAttachmentController } from '../../controller/attachment-controller.ts'
import { attachedToLabel } from '../../controller/attachment-pod.ts'
import { startConfigController } from '../../controller/config-controller.ts'
import { startGroupController } from '../../controller/group-controller.ts'
import { vmUidLabel } from '../../controller/launcher-pod.ts'
import { startOrphanController } from '../../controller/orphan-controller.ts'
import { startPresetController } from '../../controller/preset-controller.ts'
import { startSnapshotController } from '../../controller/snapshot-controller.ts'
import { startVmController } from '../../controller/vm-controller.ts'
import { watchInventory } from '../../inventory/watched.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { keyOf } from '../../runtime/resource.ts'
import { startFakeApiServer } from '../fake-apiserver.ts'
import { fakeClock, settle } from '../fake-clock.ts'
import { storedVm } from '../stored-vm.ts'
import { until } from '../until.ts'

const log = createLogger({ process: 'test', level: 'silent' })
const api = '/apis/virtset.io/v1alpha1'
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

/** All controllers, as `main` starts them, in a replica that does not lead. */
async function startStandby() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  const kube = createKubeClient({ access: server.access, userAgent: 'test', clock })
  const context = { kube, events: { record: () => {} }, log, clock, isLeader: () => false }
  const inventory = watchInventory({ kube, log, clock, findWithMac: () => undefined })
  const engine = cacheRefusals(createEngine(inventory), inventory)
  const image = 'launcher:1'
  const controller = startVmController({ ...context, engine, image, concurrency: 1, isAwaited: () => false })
  const { vms, pods } = controller
  const attachments = startAttachmentController({ ...context, vms, pods, image })
  const configs = startConfigController({ ...context, vms })
  const groups = startGroupController({ ...context, vms })
  const snapshots = startSnapshotController({ ...context, vms })
  const all = [
    controller,
    attachments,
    configs,
    groups,
    snapshots,
    startOrphanController({ ...context, vms, pods }),
    startPresetController({ ...context, inventory, vms, engine }),
  ]
  closing.push(
    () => server.close(),
    () => kube.close(),
    () => inventory.stop(),
    () => Promise.all(all.map((one) => one.stop())),
  )
  const caches = [vms, pods, attachments.attachments, configs.configs, groups.groups, snapshots.snapshots]
  await Promise.all([inventory.synced(), ...caches.map((cache) => cache.synced())])
  return { server, caches, inventory }
}

/** The texts of this form that are a key or a value of a map or a set of this process. */
async function heldTexts(pattern: RegExp): Promise<string[]> {
  const session = new Session()
  session.connect()
  try {
    const held = new Set<string>()
    for (const prototype of ['Map', 'Set']) {
      const { result } = await session.post('Runtime.evaluate', { expression: `${prototype}.prototype` })
      const { objects } = await session.post('Runtime.queryObjects', { prototypeObjectId: result.objectId ?? '' })
      const { result: found, exceptionDetails } = await session.post('Runtime.callFunctionOn', {
        ...(objects.objectId === undefined ? {} : { objectId: objects.objectId }),
        functionDeclaration: `function (pattern) {
          // Prototypes of derived classes are found, too, and have no size.
          const isMade = (of) => {
            try {
              return of.size > 0
            } catch {
              return false
            }
          }
          const texts = (of) => [...of.entries()].flat().filter((one) => typeof one === 'string')
          return this.filter(isMade).flatMap(texts).flatMap((text) => text.match(pattern)?.[0] ?? [])
        }`,
        arguments: [{ value: pattern.source }],
        returnByValue: true,
      })
      if (exceptionDetails !== undefined) throw new Error(exceptionDetails.exception?.description)
      for (const text of found.value as string[]) held.add(text)
    }
    return [...held].toSorted()
  } finally {
    session.disconnect()
  }
}

const { metadata: vmMetadata, ...vmRest } = storedVm()
const { resourceVersion: _version, ...staying } = vmMetadata
const vm = JSON.parse(JSON.stringify({ ...vmRest, status: { phase: 'Running', nodeName: 'n1', podUID: 'launcher' } }))
const template = { spec: vm.spec }
const pod = (label: string) => ({
  collection: '/api/v1/pods',
  metadata: { labels: { [label]: staying.uid } },
  spec: { containers: [], volumes: [] },
  status: { phase: 'Failed' },
})
const selector = { matchLabels: { a: 'b' } }
interface Made {
  readonly collection: string
  readonly metadata?: object
  readonly spec?: object
}
const kinds: Readonly<Record<string, Made>> = {
  attachment: pod(attachedToLabel),
  config: { collection: `${api}/virtualmachineconfigs`, spec: { template } },
  group: { collection: `${api}/virtualmachinegroups`, spec: { replicas: 1, selector, template } },
  launcher: pod(vmUidLabel),
  preset: { collection: `${api}/virtualmachinepresets`, spec: { selector: {}, domain: { title: 'x' } } },
  snapshot: { collection: `${api}/virtualmachinesnapshots`, spec: { source: { name: 'vm1' } } },
  vm: { collection: `${api}/virtualmachines`, ...vm },
}

test('a replica that does not lead keeps nothing of objects that are deleted', async () => {
  const { server, caches, inventory } = await startStandby()
  const namespace = 'default'
  server.put(`${api}/virtualmachines`, { ...vm, metadata: staying })
  await until(() => caches[0]?.store.get(keyOf(staying)) !== undefined)
  const isCached = (kind: string) => {
    const key = keyOf({ namespace, name: `gone-${kind}-0` })
    return caches.some(({ store }) => store.get(key) !== undefined) || inventory.preset(key) !== undefined
  }
  for (const [kind, { collection, metadata, ...rest }] of Object.entries(kinds)) {
    const name = `gone-${kind}-0`
    server.put(collection, { ...rest, metadata: { ...metadata, namespace, name, uid: `uid-${name}` } })
  }
  await until(() => Object.keys(kinds).every(isCached))
  const pattern = /gone-[a-z]+/
  expect(await heldTexts(pattern)).toEqual(Object.keys(kinds).map((kind) => `gone-${kind}`))
  for (const [kind, { collection }] of Object.entries(kinds)) server.remove(collection, namespace, `gone-${kind}-0`)
  await until(() => !Object.keys(kinds).some(isCached))
  await settle()
  expect(await heldTexts(pattern)).toEqual([])
})
