import { expect, test } from 'vitest'
import { storedVm } from '../test/stored-vm.ts'
import { imagePull } from './image-pull.ts'
import { launcherPod } from './launcher-pod.ts'
import type { PodEvent } from './pod-event.ts'

const source = { image: { reference: 'r.example/base:1' } }
const volumes = [
  { name: 'root', image: { reference: 'debian' } },
  { name: 'data', persistentVolumeClaim: { claimName: 'c', source } },
]
const { spec } = storedVm()
const options = { image: 'launcher:1', claims: new Map() }
const pod = launcherPod(storedVm({ spec: { ...spec, volumes } }), options)

const event = (reason: string, image: string): PodEvent => ({
  metadata: { name: 'e' },
  reason,
  message: `${reason} image "${image}"`,
  lastTimestamp: '2030-01-01T00:00:00Z',
})
const root = 'volume "root": the image debian is being pulled'
const data = 'volume "data": the image r.example/base:1 is being pulled'

test.each<[string, readonly PodEvent[], string | undefined]>([
  ['nothing without events', [], undefined],
  ['an image, with the tag that it has by default', [event('Pulling', 'debian:latest')], root],
  ['the image that a claim is filled from', [event('Pulling', 'r.example/base:1')], data],
  ['both', [event('Pulling', 'debian:latest'), event('Pulling', 'r.example/base:1')], `${root}; ${data}`],
  [
    'not one that was pulled',
    [event('Pulling', 'debian:latest'), event('Pulled', 'debian:latest'), event('Pulling', 'r.example/base:1')],
    data,
  ],
  ['not one that failed', [event('Pulling', 'debian:latest'), event('Failed', 'debian:latest')], undefined],
  ['not that of the launcher, nor one that the VM does not have', [event('Pulling', 'launcher:1')], undefined],
])('reports %s', (_, events, message) => expect(imagePull(events, pod)).toBe(message))
