import { afterEach, expect, test } from 'vitest'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import { virtualMachines } from '../runtime/resource.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { storedVm } from '../test/stored-vm.ts'
import { until } from '../test/until.ts'
import { launcherPod, vmUidLabel } from './launcher-pod.ts'
import { startOrphanController } from './orphan-controller.ts'
import { pods } from './pod.ts'
import type { Pod } from './pod.ts'

const vmsPath = '/apis/virtset.io/v1alpha1/virtualmachines'
const podsPath = '/api/v1/pods'
const log = createLogger({ process: 'test', level: 'silent' })
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  closing.push(() => server.close())
  const kube = createKubeClient({ access: server.access, userAgent: 'test', clock })
  closing.push(() => kube.close())
  const put = (collection: string, { metadata, ...rest }: VirtualMachine | Pod) => {
    const { resourceVersion: _version, ...others } = metadata
    return server.put(collection, JSON.parse(JSON.stringify({ ...rest, metadata: others })))
  }
  const start = async () => {
    const vms = startReflector({
      kube,
      resource: virtualMachines,
      log,
      clock,
      indexers: { uid: ({ metadata }: VirtualMachine) => [metadata.uid ?? ''] },
    })
    const podCache = startReflector({
      kube,
      resource: pods,
      log,
      clock,
      labelSelector: vmUidLabel,
      indexers: { vm: ({ metadata }: Pod) => [metadata.labels?.[vmUidLabel] ?? ''] },
    })
    const recorded: string[] = []
    const controller = startOrphanController({
      kube,
      vms,
      pods: podCache,
      log,
      clock,
      isLeader: () => true,
      events: {
        record: ({ reason, regarding }) => void recorded.push(`${reason} ${regarding.kind} ${regarding.name}`),
      },
    })
    closing.push(async () => {
      await controller.stop()
      await Promise.all([vms.stop(), podCache.stop()])
    })
    await controller.lead()
    return { recorded }
  }
  const names = () => server.objects(podsPath).map(({ metadata }) => String(metadata.name))
  return { clock, server, put, start, names }
}

const vm = storedVm()
const other = storedVm({ metadata: { name: 'vm2', uid: 'ffffffff-0000-4000-8000-000000000002' } })
const podOf = (of: typeof vm): Pod => launcherPod(of, { image: 'launcher:1', claims: new Map() })
const unowned = (pod: Pod): Pod => ({ ...pod, metadata: { ...pod.metadata, ownerReferences: [] } })

test('deletes a launcher pod without a VM, and no other', async () => {
  const { server, put, start, names, clock } = await setUp()
  put(vmsPath, vm)
  put(podsPath, podOf(vm))
  put(podsPath, unowned(podOf(other)))
  const { metadata, spec } = podOf(other)
  const noLauncher = spec.containers.map((one) => ({ ...one, env: [] }))
  put(podsPath, { metadata: { ...metadata, name: 'labelled' }, spec: { ...spec, containers: noLauncher } })
  const { recorded } = await start()
  await until(
    () => names().length === 2,
    () => clock.advance(1000),
  )
  expect(names().toSorted()).toEqual(['labelled', 'virt-launcher-vm1-a1b2c3d4'])
  expect(recorded).toEqual(['OrphanedLauncherPod Pod virt-launcher-vm2-ffffffff'])
  expect(server.objects(vmsPath)).toHaveLength(1)
})

test('deletes a launcher pod whose VM is in another namespace', async () => {
  const { put, start, names, clock } = await setUp()
  put(vmsPath, vm)
  const copy = unowned(podOf(vm))
  put(podsPath, { ...copy, metadata: { ...copy.metadata, namespace: 'other' } })
  await start()
  await until(
    () => names().length === 0,
    () => clock.advance(1000),
  )
  expect(names()).toEqual([])
})

test('leaves a pod whose VM is missing only in the cache', async () => {
  const { server, put, start, names, clock } = await setUp()
  server.fault = ({ path, query }) =>
    path === vmsPath && query.get('watch') === 'true' ? { heldUntil: new Promise(() => {}) } : undefined
  await start()
  put(vmsPath, vm)
  put(podsPath, podOf(vm))
  const lists = () =>
    server.requests.filter(({ path }) => path === '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachines')
  await until(
    () => lists().length > 0,
    () => clock.advance(1000),
  )
  await clock.advance(10_000)
  expect(names()).toEqual(['virt-launcher-vm1-a1b2c3d4'])
})

test('deletes the pod of a VM that disappeared', async () => {
  const { server, put, start, names, clock } = await setUp()
  put(vmsPath, vm)
  put(podsPath, unowned(podOf(vm)))
  await start()
  server.remove(vmsPath, 'default', 'vm1')
  await until(
    () => names().length === 0,
    () => clock.advance(1000),
  )
  expect(names()).toEqual([])
})
