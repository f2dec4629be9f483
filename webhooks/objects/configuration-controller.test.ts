import { expect, test } from 'vitest'
import type { ObjectPreset } from '../../api/object-preset.ts'
import type { PresetTarget } from '../../api/preset-target.ts'
import type { WatchedObjects } from '../../inventory/objects.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { gadgetTarget } from '../../test/presets/objects.ts'
import { runConfigurationController, settleConfiguration } from './configuration-controller.ts'

const preset = (name: string): Persisted<ObjectPreset> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'ObjectPreset',
  metadata: { name, namespace: 'team', uid: name, resourceVersion: '1' },
  spec: { target: gadgetTarget, selector: {} },
})

test('a round ends early while presets change, and the next one continues', async () => {
  const clock = fakeClock()
  const written: string[] = []
  const kube: Pick<KubeClient, 'get' | 'update' | 'patch'> = {
    get: (async () => ({ metadata: {} })) as unknown as KubeClient['get'],
    update: (async () => {
      throw new Error('the configuration is empty, as it should be')
    }) as KubeClient['update'],
    patch: (async (_, { name }) => {
      written.push(name)
      await clock.advance(100)
      return {}
    }) as KubeClient['patch'],
  }
  const objects: Pick<WatchedObjects, 'target' | 'targets' | 'storedTargets' | 'storedPresets'> = {
    target: () => undefined,
    targets: () => [],
    storedTargets: () => [],
    storedPresets: () => Array.from({ length: 12 }, (_, index) => preset(`p${index}`)),
  }
  const log = createLogger({ process: 'test', level: 'silent' })
  const exclusions = { namespaces: [], accounts: [] }
  const options = { kube: kube as KubeClient, objects: objects as WatchedObjects, exclusions, log, clock }
  const settle = (isOutdated: boolean, first: number) => settleConfiguration(options, () => isOutdated, first)

  const rounds: (readonly [first: number, names: string])[] = []
  let first = 0
  for (const isOutdated of [true, true, true, false]) {
    first = await settle(isOutdated, first)
    rounds.push([first, written.splice(0).join(' ')])
  }
  expect(rounds).toEqual([
    [5, 'p0 p1 p2 p3 p4'],
    [10, 'p5 p6 p7 p8 p9'],
    [3, 'p10 p11 p0 p1 p2'],
    [0, 'p3 p4 p5 p6 p7 p8 p9 p10 p11 p0 p1 p2'],
  ])
})

test('while presets change without end, rounds become rarer; a change after a pause is written soon', async () => {
  const clock = fakeClock()
  let rounds = 0
  const kube: Pick<KubeClient, 'get' | 'patch'> = {
    get: (async () => {
      rounds += 1
      return { metadata: {}, webhooks: [] }
    }) as unknown as KubeClient['get'],
    patch: (async () => ({})) as unknown as KubeClient['patch'],
  }
  const target: Persisted<PresetTarget> = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'PresetTarget',
    metadata: { name: 'gadgets.example.com', uid: 't', resourceVersion: '1' },
    spec: { ...gadgetTarget, failurePolicy: 'Fail' },
  }
  let changed = () => {}
  const objects: Pick<WatchedObjects, 'onChange' | 'target' | 'targets' | 'storedTargets' | 'storedPresets'> = {
    onChange: (listener) => void (changed = () => listener('team/p')),
    target: () => undefined,
    targets: () => [],
    storedTargets: () => [target],
    storedPresets: () => [],
  }
  const log = createLogger({ process: 'test', level: 'silent' })
  const exclusions = { namespaces: [], accounts: [] }
  const options = { kube: kube as KubeClient, objects: objects as WatchedObjects, exclusions, log, clock }
  const stopping = new AbortController()
  const running = runConfigurationController(options, stopping.signal)
  const roundsIn = async (ms: number, isChanging: boolean): Promise<number> => {
    const before = rounds
    for (let at = 0; at < ms; at += 50) {
      if (isChanging) changed()
      await clock.advance(50)
    }
    return rounds - before
  }
  await roundsIn(5000, true)
  expect(await roundsIn(10_000, true)).toBeLessThanOrEqual(11)
  await roundsIn(5000, false)
  changed()
  expect(await roundsIn(200, false)).toBe(1)
  stopping.abort()
  await roundsIn(20_000, false)
  await running
})
