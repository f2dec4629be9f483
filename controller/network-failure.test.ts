import { expect, test } from 'vitest'
import { storedVm } from '../test/stored-vm.ts'
import { launcherPod } from './launcher-pod.ts'
import { networkFailure, networksAnnotation } from './network-failure.ts'
import type { PodEvent } from './pod-event.ts'

const networks = [
  { name: 'lab', namespace: 'default', interface: 'net1' },
  { name: 'storage', namespace: 'infra', interface: 'net2' },
]
const made = launcherPod(storedVm(), { image: 'launcher:1', claims: new Map() })
const podWith = (annotation: string) => ({
  ...made,
  metadata: { ...made.metadata, namespace: 'default', annotations: { [networksAnnotation]: annotation } },
})
const pod = podWith(JSON.stringify(networks))

const event = (reason: string, message: string, second = 0): PodEvent => ({
  metadata: { name: 'e' },
  reason,
  message,
  lastTimestamp: `2030-01-01T00:00:0${second}Z`,
})
const prefix = `Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "${'0'.repeat(64)}": plugin type="multus" name="multus" failed (add): `
const failed = (message: string, second = 0) => event('FailedCreatePodSandBox', `${prefix}${message}`, second)
const notFound = (name: string, namespace: string) =>
  `Multus: [default/p/u]: error loading k8s delegates k8s args: TryLoadPodDelegates: error in getting k8s network for pod: GetNetworkDelegates: failed getting the delegate: getKubernetesDelegate: cannot find a network-attachment-definition (${name}) in namespace (${namespace}): network-attachment-definitions.k8s.cni.cncf.io "${name}" not found`
const missing = (stated: string, name: string, namespace: string) =>
  `network "${stated}": the NetworkAttachmentDefinition "${name}" does not exist in namespace "${namespace}"`

test.each<[string, readonly PodEvent[], string | undefined]>([
  ['nothing without events', [], undefined],
  ['nothing for a pod that only was scheduled', [event('Scheduled', 'assigned')], undefined],
  ['a network that does not exist', [failed(notFound('lab', 'default'))], missing('lab', 'lab', 'default')],
  [
    'a network of another namespace',
    [failed(notFound('storage', 'infra'))],
    missing('infra/storage', 'storage', 'infra'),
  ],
  [
    'the event of Multus alone',
    [
      event('Scheduled', 'assigned'),
      event(
        'NoNetworkFound',
        'cannot find a network-attachment-definition (lab) in namespace (default): network-attachment-definitions.k8s.cni.cncf.io "lab" not found',
        1,
      ),
    ],
    missing('lab', 'lab', 'default'),
  ],
  [
    'the words of the CNI plugin of a network',
    [
      failed(
        '[default/p/u:lab]: error adding container to network "lab": failed to find plugin "brigde" in path [/opt/cni/bin]',
      ),
    ],
    'network "lab": failed to find plugin "brigde" in path [/opt/cni/bin]',
  ],
  [
    'those of a plugin in a chain',
    [
      failed(
        '[default/p/u:storage]: error adding container to network "storage": plugin type="vlan" failed (add): Link not found',
      ),
    ],
    'network "infra/storage": Link not found',
  ],
  [
    'the network of the pod',
    [failed('[default/p/u:cluster]: error adding container to network "cluster": no free address')],
    'the network of the pod: no free address',
  ],
  [
    'a refusal of Multus in its own words',
    [failed('Multus: [default/p/u]: namespace isolation enabled, annotation violates permission')],
    'the network of the pod: Multus: [default/p/u]: namespace isolation enabled, annotation violates permission',
  ],
  [
    'the last cause',
    [failed(notFound('lab', 'default'), 1), failed('x', 2), event('SandboxChanged', 'x', 3)],
    'the network of the pod: x',
  ],
  [
    'a failure although each attempt begins with the network of the pod',
    [failed(notFound('lab', 'default'), 2), event('AddedInterface', 'Add eth0 [10.0.0.5/24] from cluster', 3)],
    missing('lab', 'lab', 'default'),
  ],
  [
    'nothing once the pod has made progress',
    [failed(notFound('lab', 'default'), 2), event('Pulled', 'image', 3)],
    undefined,
  ],
])('reports %s', (_, events, message) => expect(networkFailure(events, pod)).toBe(message))

test.each(['', '{}', 'null', '[null, 1, {"name": 7}]', 'lab'])('an annotation %j of another names nothing', (text) =>
  expect(networkFailure([failed('error adding container to network "lab": x')], podWith(text))).toBe(
    'the network of the pod: x',
  ),
)
