import { join } from 'node:path'

import { attempt } from './command.ts'
import { inNamespace } from './namespace.ts'
import type { NodeAddresses } from './network.ts'
import { nodePaths, untilSucceeds } from './node.ts'
import { ensureProcess, untilSettled, type ProcessDirectories } from './process.ts'
import type { Step } from './progress.ts'

const driver = 'files.csi.virtset.io'

const driverObjects = [
  {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'CSIDriver',
    metadata: { name: driver },
    spec: { attachRequired: false, fsGroupPolicy: 'File', volumeLifecycleModes: ['Persistent'] },
  },
  {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name: 'files' },
    provisioner: driver,
    allowVolumeExpansion: true,
  },
  {
    apiVersion: 'snapshot.storage.k8s.io/v1',
    kind: 'VolumeSnapshotClass',
    metadata: { name: 'files', annotations: { 'snapshot.storage.kubernetes.io/is-default-class': 'true' } },
    driver,
    deletionPolicy: 'Delete',
  },
]

export interface Storage {
  /** The directory with the driver, the controllers, and the CRDs of VolumeSnapshots. */
  readonly programs: string
  readonly kubeconfig: string
  readonly kubectl: readonly string[]
  /** The directory of the cluster. */
  readonly state: string
  readonly nodes: readonly NodeAddresses[]
}

/** Adds the StorageClass and VolumeSnapshotClass `files`, whose volumes each node can use. */
export async function ensureStorage(step: Step, directories: ProcessDirectories, storage: Storage): Promise<void> {
  const { programs, kubeconfig, kubectl, state, nodes } = storage
  const environment = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }
  const started: string[] = []
  const ensure = async (name: string, command: readonly string[]) => {
    await ensureProcess(directories, { name, command, environment })
    started.push(name)
  }
  const apply = [...kubectl, 'apply', '--server-side', '--force-conflicts', '-f']
  // Without the CRDs, the controllers of snapshots end.
  for (const plural of ['volumesnapshotclasses', 'volumesnapshotcontents', 'volumesnapshots'])
    await step.run([...apply, join(programs, 'crd', `snapshot.storage.k8s.io_${plural}.yaml`)])
  const objects = { apiVersion: 'v1', kind: 'List', items: driverObjects }
  await untilSucceeds(step, [...kubectl, 'get', 'volumesnapshotclasses,volumesnapshots'], 'the kind VolumeSnapshot')
  await step.run([...apply, '-'], { input: JSON.stringify(objects) })

  const csiFiles = [join(programs, 'csi-files'), '--data', join(state, 'csi')]
  for (const { name } of nodes) {
    const kubelet = '/var/lib/kubelet'
    const sockets = ['--endpoint', `${kubelet}/plugins/${driver}/csi.sock`]
    const registration = ['--register', `${kubelet}/plugins_registry/${driver}-reg.sock`, '--node', name]
    const command = [...csiFiles, ...sockets, ...registration]
    await ensure(`csi-files-${name}`, inNamespace(nodePaths(state, name).namespace, command))
  }
  const socket = join(state, 'csi', 'csi.sock')
  await ensure('csi-files', [...csiFiles, '--endpoint', socket])
  const flags = ['--kubeconfig', kubeconfig, '--leader-election=false']
  for (const name of ['csi-provisioner', 'csi-resizer', 'csi-snapshotter'])
    await ensure(name, [join(programs, name), ...flags, '--csi-address', socket])
  await ensure('snapshot-controller', [join(programs, 'snapshot-controller'), ...flags])
  for (const name of started) await untilSettled(directories, name)
}

/** Removes the loop devices of volumes that nothing has unmounted. */
export async function removeLoopDevices(step: Step, state: string): Promise<void> {
  const list = await attempt(['losetup', '--list', '--noheadings', '--output', 'NAME,BACK-FILE'], { log: step.log })
  for (const line of list?.split('\n') ?? []) {
    const [device = '', file = ''] = line.trim().split(/\s+/)
    if (file.startsWith(`${join(state, 'csi')}/`)) await attempt(['losetup', '--detach', device], { log: step.log })
  }
}
