import { expect, test } from 'vitest'

import { restore, unboundQemus } from './restore.ts'

const names = [
  'containerd-node1',
  'containerd-node2',
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-proxy',
  'kube-scheduler',
  'kubelet-node1',
  'kubelet-node2',
]

test('a restore starts the scheduler only after all kubelets, when only bound pods run', async () => {
  const done: string[] = []
  const record = async (what: string) => void done.push(what)
  await restore(names, {
    async kill(name) {
      done.push(`kill ${name}`)
      return () => record(`start ${name}`)
    },
    replaceData: () => done.push('data'),
    untilReady: () => record('ready'),
    untilOnlyBoundPodsRun: () => record('only bound pods run'),
  })
  expect(done).toEqual([
    'kill kube-scheduler',
    'kill kube-controller-manager',
    'kill kubelet-node1',
    'kill kubelet-node2',
    'kill kube-apiserver',
    'kill etcd',
    'data',
    'start etcd',
    'start kube-apiserver',
    'ready',
    'start kubelet-node1',
    'start kubelet-node2',
    'only bound pods run',
    'start kube-controller-manager',
    'start kube-scheduler',
  ])
})

const qemu = (podUid: string, node: string) => ({ pid: 1, startTime: '1', podUid, node, uuid: 'a', disks: [] })
const pod = (uid: string, nodeName?: string) => ({ name: uid, uid, vmUid: 'v', ...(nodeName && { nodeName }) })

test.each([
  ['a pod on its node', [pod('a', 'node1')], 0],
  ['a pod on another node', [pod('a', 'node2')], 1],
  ['a pod without a node', [pod('a')], 1],
  ['no pod', [pod('b', 'node1')], 1],
])('the QEMU of %s: %#', (_, pods, count) => {
  expect(unboundQemus({ atMs: 0, qemus: [qemu('a', 'node1')], objects: { vms: [], pods } })).toHaveLength(count)
})

test('without a response of the API server, no QEMU is known to be bound', () => {
  expect(unboundQemus({ atMs: 0, qemus: [] })).toBeUndefined()
})
