import { chown, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { openCluster, processesOfPod, type TestCluster } from '../cluster.ts'
import { linuxVolume } from '../example-images.ts'
import { deaf, presets } from '../vms.ts'

let cluster: TestCluster
/** The directory on the host of a volume that every node can use. */
let shared: string
let volumeName: string

beforeAll(async () => {
  cluster = await openCluster()
  shared = join(cluster.state, `shared-${cluster.namespace}`)
  volumeName = `${cluster.namespace}-shared`
  await mkdir(shared)
  await chown(shared, launcherUser, launcherUser)
  await cluster.apply(...presets, claim('own', 'ReadWriteOnce', { storageClassName: 'files' }), ...sharedVolume())
})
afterAll(async () => {
  await cluster.close()
  await cluster.kubectl('delete', 'pv', volumeName, '--wait=false')
  await rm(shared, { recursive: true })
})

const launcherUser = 107
/** XFS, which the storage of the cluster uses, is not smaller than 300 MiB. */
const storage = '320Mi'
/** A guest boots in 20 s, and in many times that on a busy machine. */
const bootMs = 600_000

const claim = (name: string, accessMode: string, spec: object) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name },
  spec: { accessModes: [accessMode], resources: { requests: { storage } }, ...spec },
})

function sharedVolume(): object[] {
  const volume = {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: volumeName },
    spec: {
      accessModes: ['ReadWriteMany'],
      storageClassName: '',
      hostPath: { path: shared },
      capacity: { storage },
      persistentVolumeReclaimPolicy: 'Retain',
      claimRef: { namespace: cluster.namespace, name: 'shared' },
    },
  }
  return [volume, claim('shared', 'ReadWriteMany', { storageClassName: '', volumeName })]
}

/** The example's Linux with file systems, which it mounts at `/NAME`; then it runs `script`. */
async function linux(name: string, filesystems: readonly string[], script: string): Promise<object> {
  const root = await linuxVolume(cluster)
  const mounts = filesystems.map((one) => `mkdir -p /${one}; mount -t virtiofs ${one} /${one}\n`).join('')
  const seed = { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } }
  return deaf(
    name,
    {
      terminationGracePeriodSeconds: 0,
      volumes: [
        root,
        { name: 'seed', cloudInit: { userData: `#!/bin/sh\n${mounts}${script}` } },
        ...filesystems.map((claimName) => ({ name: claimName, persistentVolumeClaim: { claimName } })),
      ],
    },
    {
      memory: { unit: 'MiB', value: 256 },
      devices: {
        disks: [{ type: 'volume', device: 'disk', source: { volume: 'root' }, target: { dev: 'vda' } }, seed],
        filesystems: filesystems.map((volume) => ({ source: { volume }, target: { dir: volume } })),
      },
    },
  )
}

const fileOf = (name: string) =>
  cluster.until(
    `the guest has written ${name}`,
    () =>
      readFile(join(shared, name), 'utf8').then(
        (text) => (text.endsWith('\n') ? text : undefined),
        () => undefined,
      ),
    bootMs,
  )

test('two guests share the files of a claim, and the VM of one reports that nothing serves them any more', async () => {
  await writeFile(join(shared, 'question'), 'of the host\n')
  const first = `echo kept >/own/file; cp /shared/question /own/copy; cat /own/copy /own/file >/shared/.first
mv /shared/.first /shared/first`
  const second = `while ! [ -e /shared/first ]; do sleep 1; done; tac /shared/first >/shared/.second; mv /shared/.second /shared/second`
  await cluster.apply(await linux('first', ['own', 'shared'], first), await linux('second', ['shared'], second))
  const vm = await cluster.untilVm('first', 'runs', ({ status }) => status?.phase === 'Running')
  expect(vm.spec.domain['memoryBacking']).toEqual({ source: { type: 'memfd' }, access: { mode: 'shared' } })
  expect(vm.status?.conditions?.find(({ type }) => type === 'SpecDrift')).toBeUndefined()
  expect(await fileOf('second')).toBe('kept\nof the host\n')
  const { uid, gid } = await stat(join(shared, 'second'))
  expect({ uid, gid }).toEqual({ uid: launcherUser, gid: launcherUser })

  const [virtiofsd] = processesOfPod(vm.status?.podUID ?? 'no pod', (command) => command.includes('virtiofsd --fd'))
  if (virtiofsd === undefined) throw new Error('the pod has no virtiofsd')
  process.kill(virtiofsd, 'SIGKILL')
  const lost = await cluster.untilVm('first', 'has lost a file system', ({ status }) =>
    Boolean(status?.conditions?.some(({ reason }) => reason === 'FilesystemLost')),
  )
  expect(lost.status?.phase).toBe('Running')
}, 1_200_000)
