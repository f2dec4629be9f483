import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startFakeApiServer, type FakeApiServer, type FakeObject } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { followProfilePod, type ProfilePod } from './profile-pod.ts'

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'virtset-profile', uid: 'd', controller: true }
const maxBytes = 100

let root: string
let api: FakeApiServer
let kube: KubeClient
let pod: ProfilePod

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubelet-'))
  api = await startFakeApiServer()
  kube = createKubeClient({ access: api.access, userAgent: 'virtset-handler' })
})
afterEach(async () => {
  await pod.stop()
  await kube.close()
  await api.close()
  await rm(root, { recursive: true })
})

/** Starts following once the pod exists, with its volume. */
async function follow(metadata: Partial<FakeObject['metadata']>): Promise<string> {
  api.put('/api/v1/pods', {
    metadata: {
      name: 'virtset-profile-1',
      namespace: 'virtset-system',
      uid,
      labels: { 'app.kubernetes.io/component': 'profile' },
      ownerReferences: [owner],
      ...metadata,
    },
    spec: { nodeName: 'one' },
  })
  const log = createLogger({ process: 'test', level: 'silent' })
  pod = followProfilePod({ kube, nodeName: 'one', kubeletRoot: root, log, clock: fakeClock() })
  await pod.pods.synced()
  const volume = join(root, 'pods', uid, 'volumes/kubernetes.io~empty-dir/profile')
  await mkdir(volume, { recursive: true })
  return volume
}

const read = async () => (await pod.read('profile.json', maxBytes))?.toString()

test('a file of the pod of the DaemonSet is read', async () => {
  const volume = await follow({})
  expect(await read()).toBeUndefined()
  await writeFile(join(volume, 'profile.json'), '{}')
  expect(await read()).toBe('{}')
})

test.each<[string, Partial<FakeObject['metadata']>]>([
  ['has no owner', { ownerReferences: [] }],
  ['is owned by a VM, which gives its pod its labels', { ownerReferences: [{ ...owner, kind: 'VirtualMachine' }] }],
  ['is owned by another DaemonSet', { ownerReferences: [{ ...owner, name: 'other' }] }],
  ['is only referenced, not controlled', { ownerReferences: [{ ...owner, controller: false }] }],
  ['is being deleted', { deletionTimestamp: '2030-01-01T00:00:00Z' }],
])('a pod that %s is not read', async (_, metadata) => {
  await writeFile(join(await follow(metadata), 'profile.json'), '{}')
  expect(await read()).toBeUndefined()
})

test('a link in the volume is not followed', async () => {
  const volume = await follow({})
  await writeFile(join(root, 'secret'), '{}')
  await symlink(join(root, 'secret'), join(volume, 'profile.json'))
  expect(await read()).toBeUndefined()
})

test('a file that is too long is refused', async () => {
  await writeFile(join(await follow({}), 'profile.json'), ' '.repeat(maxBytes + 1))
  await expect(read()).rejects.toThrow('profile.json of the profile pod is longer than 100 bytes')
})
