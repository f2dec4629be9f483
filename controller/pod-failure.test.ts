import { expect, test } from 'vitest'
import type { KubeClient, ListOptions } from '../runtime/kube.ts'
import { parserOf } from '../runtime/partial-json.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { storedVm } from '../test/stored-vm.ts'
import { launcherPod } from './launcher-pod.ts'
import { networksAnnotation } from './network-failure.ts'
import { podEvents, type PodEvent } from './pod-event.ts'
import { canFail, createPodFailures } from './pod-failure.ts'

const volumes = [{ name: 'seed', secret: { secretName: 'vm.web' } }]
const { spec } = storedVm()
const options = { image: 'launcher:1', claims: new Map() }
const pod = launcherPod(storedVm({ spec: { ...spec, volumes } }), options)
const identity = { ...pod.metadata, name: 'p', uid: 'u1', resourceVersion: '1' }

const failed = (reason: string, message: string): PodEvent => ({
  metadata: { name: 'e' },
  reason,
  message,
  lastTimestamp: '2030-01-01T00:00:00Z',
})

test.each([
  ['volumes that can be missing', pod, true],
  ['networks that can be missing', { ...pod, metadata: { annotations: { [networksAnnotation]: '[]' } } }, true],
  ['neither', launcherPod(storedVm({ spec: { ...spec, volumes: [] } }), options), false],
])('a pod with %s', (_, one, expected) => {
  const bare = { ...one, spec: { ...one.spec, ...(expected && one !== pod ? { volumes: [] } : {}) } }
  expect(canFail(bare)).toBe(expected)
})

test.each([
  [
    failed('FailedMount', 'MountVolume.SetUp failed for volume "source-0" : gone'),
    { reason: 'FailedMount', message: 'volume "seed": gone' },
  ],
  [
    failed('FailedCreatePodSandBox', 'plugin type="ptp" failed (add): no free address'),
    { reason: 'FailedCreatePodSandBox', message: 'the network of the pod: no free address' },
  ],
  [failed('Scheduled', 'assigned'), undefined],
])('the failure of %j', async (event, expected) => {
  const listEach = (async (_, __, take) => {
    take(event as never)
    return { resourceVersion: '1' }
  }) satisfies KubeClient['listEach']
  expect(await createPodFailures({ listEach }, fakeClock())({ ...pod, metadata: identity })).toEqual(expected)
})

test('of an event, only what explains a failure is parsed', () => {
  const { metadata, ...event } = failed('FailedMount', 'm')
  const read = { ...event, metadata: { ...identity, ...metadata, creationTimestamp: '2030-01-01T00:00:00Z' } }
  const { name, namespace, uid, resourceVersion, creationTimestamp } = read.metadata
  const json = JSON.stringify({ ...read, involvedObject: { kind: 'Pod' }, related: {} })
  expect(parserOf(podEvents.read)(Buffer.from(json))).toEqual({
    ...event,
    metadata: { name, namespace, uid, resourceVersion, creationTimestamp },
  })
})

test('reads one page of short events, seldom', async () => {
  const clock = fakeClock()
  await clock.advance(1)
  const requests: ListOptions[] = []
  const huge = failed('FailedMount', `MountVolume.SetUp failed for volume "source-0" : ${'x'.repeat(1_000_000)}`)
  const listEach = (async (_, options, take) => {
    requests.push(options)
    take(huge as never)
    return { resourceVersion: '1', continue: 'more' }
  }) satisfies KubeClient['listEach']
  const find = createPodFailures({ listEach }, clock)
  const stored = { ...pod, metadata: identity }
  const once = await find(stored)
  expect(once?.message).toMatch(/^volume "seed": x{100,}…$/)
  expect(once?.message.length).toBeLessThan(1024)
  expect(await find(stored)).toBe(once)
  expect(requests).toEqual([
    {
      namespace: 'default',
      fieldSelector: 'involvedObject.kind=Pod,involvedObject.uid=u1',
      limit: 25,
      mostBytes: 512 * 1024,
    },
  ])
  await clock.advance(4001)
  await find(stored)
  expect(requests.length).toBe(2)
})
