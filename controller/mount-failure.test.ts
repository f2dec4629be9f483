import { expect, test } from 'vitest'
import { storedVm } from '../test/stored-vm.ts'
import { launcherPod } from './launcher-pod.ts'
import { mountFailure } from './mount-failure.ts'
import type { PodEvent } from './pod-event.ts'

const volumes = [
  { name: 'data', persistentVolumeClaim: { claimName: 'c' } },
  { name: 'seed', secret: { secretName: 'vm.web' } },
]
const { spec } = storedVm()
const pod = launcherPod(storedVm({ spec: { ...spec, volumes } }), { image: 'launcher:1', claims: new Map() })

const event = (reason: string, message: string, second = 0): PodEvent => ({
  metadata: { name: 'e' },
  reason,
  message,
  lastTimestamp: `2030-01-01T00:00:0${second}Z`,
})
const failed = (volume: string, cause: string, second = 0) =>
  event('FailedMount', `MountVolume.SetUp failed for volume "${volume}" : ${cause}`, second)
const notFound = 'secret "vm.web" not found'
const summary = event('FailedMount', 'Unable to attach or mount volumes: unmounted volumes=[source-0], timed out', 9)
const attachment = 'AttachVolume.Attach failed for volume "pv-1" : the disk is in use'

test.each<[string, readonly PodEvent[], string | undefined]>([
  ['nothing without events', [], undefined],
  ['nothing for a pod that only was scheduled', [event('Scheduled', 'assigned', 1)], undefined],
  [
    'a missing Secret, with the name of its volume',
    [event('Scheduled', ''), failed('source-1', notFound)],
    `volume "seed": ${notFound}`,
  ],
  [
    'the last cause',
    [failed('source-1', 'key missing', 3), failed('source-1', notFound, 2)],
    'volume "seed": key missing',
  ],
  [
    'the causes of several volumes',
    [failed('source-1', notFound), failed('volume-0', 'no such disk', 1)],
    `volume "seed": ${notFound}; volume "data": no such disk`,
  ],
  ['no summary beside its causes', [failed('source-1', notFound), summary], `volume "seed": ${notFound}`],
  ['a summary alone', [summary], summary.message],
  ['a disk that cannot be attached', [event('FailedAttachVolume', attachment)], attachment],
  ['the name of a PersistentVolume', [failed('pv-1', 'x')], 'MountVolume.SetUp failed for volume "pv-1" : x'],
  [
    'the name of a volume that the VM does not have',
    [failed('source-7', 'x')],
    'MountVolume.SetUp failed for volume "source-7" : x',
  ],
  [
    'nothing once the pod has made progress',
    [failed('source-1', notFound, 2), event('Pulling', 'image', 3)],
    undefined,
  ],
])('reports %s', (_, events, message) => expect(mountFailure(events, pod)).toBe(message))
