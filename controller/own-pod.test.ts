import { expect, test } from 'vitest'
import type { Persisted } from '../runtime/resource.ts'
import { storedVm } from '../test/stored-vm.ts'
import { launcherPod } from './launcher-pod.ts'
import { sortPods } from './own-pod.ts'
import type { Pod } from './pod.ts'

const vm = storedVm()
const pod = launcherPod(vm, { image: 'launcher:1', claims: new Map() })
const stored = (metadata: object = {}, more: Partial<Pod> = {}): Persisted<Pod> => {
  const identity = { name: pod.metadata.name ?? '', uid: 'p-1', resourceVersion: '1' }
  return { ...pod, ...more, metadata: { ...pod.metadata, ...identity, ...metadata } }
}
const bare = { spec: { ...pod.spec, containers: [] } }
const copy = stored({ name: 'copy', uid: 'p-2' })

test.each<[string, Parameters<typeof sortPods>, string[], string | undefined]>([
  ['its pod, found once', [vm, stored(), [stored()]], ['p-1'], undefined],
  ['a pod without label and owner', [vm, stored({ labels: {}, ownerReferences: [] }), []], ['p-1'], undefined],
  ['a copy under another name', [vm, stored(), [stored(), copy]], ['p-1', 'p-2'], undefined],
  ['not a foreign pod of its name', [vm, stored({ labels: {} }, bare), []], [], 'p-1'],
  [
    'the pod that its status names',
    [{ ...vm, status: { podUID: 'p-1' } }, stored({ labels: {} }, bare), []],
    ['p-1'],
    undefined,
  ],
  ['not a pod with its label in another namespace', [vm, undefined, [stored({ namespace: 'other' })]], [], undefined],
])('the pods of a VM: %s', (_, given, pods, foreign) => {
  const found = sortPods(...given)
  expect(found.pods.map(({ metadata }) => metadata.uid)).toEqual(pods)
  expect(found.foreignPod?.metadata.uid).toBe(foreign)
})
