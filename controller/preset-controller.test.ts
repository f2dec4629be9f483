import { afterEach, describe, expect, it } from 'vitest'
import type { Preset } from '../api/preset.ts'
import type { EventContent } from '../runtime/events.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import type { FakeApiServer } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { watchInventory } from '../inventory/watched.ts'
import { startPresetController } from './preset-controller.ts'

const presets = '/apis/virtset.io/v1alpha1/virtualmachinepresets'
const clusterPresets = '/apis/virtset.io/v1alpha1/clustervirtualmachinepresets'
const vms = '/apis/virtset.io/v1alpha1/virtualmachines'
const log = createLogger({ process: 'test', level: 'silent' })
const head = { apiVersion: 'virtset.io/v1alpha1' }

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  opened.push(() => server.close())
  const kube = createKubeClient({ access: server.access, userAgent: 'virtset-controller', clock })
  opened.push(() => kube.close())
  const inventory = watchInventory({ kube, log, clock, findWithMac: () => undefined })
  opened.push(() => inventory.stop())
  const all = startReflector({ kube, resource: virtualMachines, log, clock })
  opened.push(() => all.stop())
  const engine = { presetsOf: () => new Map([['default/small', 'old']]) }
  const recorded: EventContent[] = []
  const events = { record: (content: EventContent) => recorded.push(content) }
  const isLeader = () => true
  const controller = startPresetController({ kube, inventory, vms: all, engine, events, log, clock, isLeader })
  opened.push(() => controller.stop())
  await Promise.all([inventory.synced(), all.synced()])
  await until(() => server.watchers() === 6)
  await controller.lead()
  return { clock, server, all, controller, recorded }
}

const small = {
  ...head,
  kind: 'VirtualMachinePreset',
  metadata: { namespace: 'default', name: 'small' },
  spec: { selector: {}, domain: { title: 'x' } },
}
const statusOf = (server: FakeApiServer, collection: string, namespace: string | undefined, name: string) =>
  server.find(collection, namespace, name)?.['status'] as Preset['status']
const writes = (server: FakeApiServer) =>
  server.requests.filter(({ method }) => method === 'PATCH').map(({ path }) => path)

describe('preset controller', () => {
  it('accepts a preset of either kind at once', async () => {
    const { server } = await setUp()
    server.put(presets, small)
    server.put(clusterPresets, {
      ...head,
      kind: 'ClusterVirtualMachinePreset',
      metadata: { name: 'all' },
      spec: { selector: {} },
    })
    await until(() => writes(server).length === 2)
    const accepted = {
      revision: expect.any(String),
      matched: 0,
      applied: 0,
      conditions: [
        { type: 'Accepted', status: 'True' },
        { type: 'ConflictFree', status: 'True' },
      ],
    }
    expect(statusOf(server, presets, 'default', 'small')).toMatchObject(accepted)
    expect(statusOf(server, clusterPresets, undefined, 'all')).toMatchObject(accepted)
  })

  it('reports the causes of an invalid preset', async () => {
    const { server, recorded } = await setUp()
    server.put(presets, { ...small, spec: { selector: {}, domain: { memery: 1 } } })
    await until(() => statusOf(server, presets, 'default', 'small') !== undefined)
    expect(statusOf(server, presets, 'default', 'small')?.conditions?.[0]).toMatchObject({
      status: 'False',
      reason: 'Invalid',
    })
    expect(statusOf(server, presets, 'default', 'small')?.conditions?.[0]?.message).toContain('memery')
    await until(() => recorded.length > 0)
    expect(recorded).toMatchObject([
      {
        regarding: { kind: 'VirtualMachinePreset', namespace: 'default', name: 'small' },
        type: 'Warning',
        reason: 'Quarantined',
        message: expect.stringContaining('spec.domain.memery: there is no such field'),
      },
    ])
    server.put(presets, small)
    await until(() => statusOf(server, presets, 'default', 'small')?.conditions?.[0]?.status === 'True')
    expect(recorded.length).toBe(1)
  })

  it('reports both of two presets that could disagree', async () => {
    const { server, clock } = await setUp()
    server.put(presets, small)
    server.put(presets, {
      ...small,
      metadata: { namespace: 'default', name: 'other' },
      spec: { selector: {}, domain: { title: 'y' } },
    })
    const disputes = (name: string) => statusOf(server, presets, 'default', name)?.conditions?.[1]?.message ?? ''
    await until(
      () => disputes('small').includes('"default/other"') && disputes('other').includes('"default/small"'),
      () => clock.advance(1000),
    )
    expect(disputes('small')).toContain('spec.domain.title')
  })

  it('writes the status of the other preset once for all changes of a second', async () => {
    const { server, clock, controller } = await setUp()
    const isIdle = () => {
      const { waiting, working, delayed } = controller.statistics() ?? {}
      return waiting === 0 && working === 0 && delayed === 0
    }
    const settled = () => until(isIdle, () => clock.advance(1000))
    const isFree = (name: string) => statusOf(server, presets, 'default', name)?.conditions?.[1]?.status
    const put = (name: string, title: string) => {
      const spec = { selector: {}, domain: { title } }
      server.put(presets, { ...small, metadata: { namespace: 'default', name }, spec })
    }
    put('small', 'x')
    await until(() => isFree('small') === 'True')
    await settled()
    const writesOf = (name: string) => writes(server).filter((path) => path.includes(`/${name}/`)).length
    const before = writesOf('small')
    for (const [title, expected] of [
      ['y', 'False'],
      ['x', 'True'],
      ['y', 'False'],
      ['x', 'True'],
      ['y', 'False'],
    ] as const) {
      put('other', title)
      await until(() => isFree('other') === expected)
    }
    expect(writesOf('small')).toBe(before)
    await until(
      () => isFree('small') === 'False',
      () => clock.advance(1000),
    )
    await settled()
    expect(writesOf('small')).toBe(before + 1)
  })

  it('writes the status of no cluster preset for a preset of a namespace', async () => {
    const { server, clock, controller } = await setUp()
    const put = (name: string, namespace?: string) =>
      server.put(namespace === undefined ? clusterPresets : presets, {
        ...head,
        kind: namespace === undefined ? 'ClusterVirtualMachinePreset' : 'VirtualMachinePreset',
        metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
        spec: { selector: {}, exclusiveGroup: 'size' },
      })
    const settled = () =>
      until(
        () => {
          const { waiting, working, delayed } = controller.statistics() ?? {}
          return waiting === 0 && working === 0 && delayed === 0
        },
        () => clock.advance(1000),
      )
    put('shared')
    await until(() => statusOf(server, clusterPresets, undefined, 'shared') !== undefined)
    await settled()
    const written = () => writes(server).filter((path) => path.startsWith(clusterPresets)).length
    const before = written()
    put('small', 'default')
    await until(() => statusOf(server, presets, 'default', 'small') !== undefined)
    await settled()
    expect(statusOf(server, presets, 'default', 'small')?.conditions?.[1]).toMatchObject({
      status: 'False',
      message: expect.stringContaining('"shared" on exclusiveGroup'),
    })
    expect(written()).toBe(before)
  })

  it('does not lead after it was stopped', async () => {
    const { controller } = await setUp()
    await controller.stop()
    const { done } = controller.statistics() ?? {}
    await expect(controller.lead()).rejects.toThrow('stopped')
    expect(controller.statistics()).toMatchObject({ done, waiting: 0, working: 0 })
  })

  it('makes no pass for a change of a VM that concerns no preset, and one for each preset that it concerns', async () => {
    const { server, clock, all, controller } = await setUp()
    const put = (namespace: string, name: string) =>
      server.put(presets, { ...small, metadata: { namespace, name, generation: 1 } })
    put('default', 'small')
    for (let count = 0; count < 30; count++) put('other', `p${count}`)
    const vm = { ...head, metadata: { namespace: 'default', name: 'vm' } }
    server.put(vms, vm)
    const isIdle = () => {
      const { waiting, working, delayed } = controller.statistics() ?? {}
      return waiting === 0 && working === 0 && delayed === 0
    }
    const settled = () => until(isIdle, () => clock.advance(1000))
    await until(() => writes(server).length >= 31)
    await settled()
    const done = () => controller.statistics()?.done ?? 0
    const before = [done(), writes(server).length] as const
    server.put(vms, { ...vm, status: { phase: 'Running' } })
    await until(() => all.store.get('default/vm')?.status?.phase === 'Running')
    await settled()
    expect([done(), writes(server).length]).toEqual(before)
    server.put(vms, { ...head, metadata: { namespace: 'default', name: 'second' } })
    await until(() => all.store.size === 2)
    await settled()
    await until(() => statusOf(server, presets, 'default', 'small')?.matched === 2)
    await settled()
    // The count, the pass over the preset, and the pass that its new status causes.
    expect([done() - before[0], writes(server).length - before[1]]).toEqual([3, 1])
  })

  it('counts VMs again when the labels of their namespace change', async () => {
    const { server, clock } = await setUp()
    const metadata = { name: 'all', generation: 1 }
    const spec = { selector: {}, namespaceSelector: { matchLabels: { tier: 'gold' } } }
    server.put(clusterPresets, { ...head, kind: 'ClusterVirtualMachinePreset', metadata, spec })
    server.put(vms, { ...head, metadata: { namespace: 'default', name: 'vm' } })
    const matches = (count: number) =>
      until(
        () => statusOf(server, clusterPresets, undefined, 'all')?.matched === count,
        () => clock.advance(1000),
      )
    await matches(0)
    server.put('/api/v1/namespaces', { metadata: { name: 'default', labels: { tier: 'gold' } } })
    await matches(1)
    server.put('/api/v1/namespaces', { metadata: { name: 'default', labels: {} } })
    await matches(0)
    server.put('/api/v1/namespaces', { metadata: { name: 'default', labels: { tier: 'gold' } } })
    await matches(1)
    expect(statusOf(server, clusterPresets, undefined, 'all')).toMatchObject({ matched: 1, applied: 0 })
  })

  it('counts VMs at most every five seconds', async () => {
    const { server, clock, all } = await setUp()
    server.put(presets, small)
    await until(() => writes(server).length === 1)
    for (let count = 0; count < 20; count++)
      server.put(vms, { ...head, metadata: { namespace: 'default', name: `vm${count}` } })
    await until(() => all.store.size === 20)
    await clock.advance(4000)
    expect(writes(server).length).toBe(1)
    await until(
      () => writes(server).length === 2,
      () => clock.advance(1000),
    )
    expect(statusOf(server, presets, 'default', 'small')).toMatchObject({ matched: 20, applied: 20, outdated: 20 })
    await clock.advance(200_000)
    expect(writes(server).length).toBe(2)
  })
})
