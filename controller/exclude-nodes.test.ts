import { expect, test } from 'vitest'
import type { Affinity } from '../api/affinity.ts'
import { storedVm } from '../test/stored-vm.ts'
import { excludeNodes } from './exclude-nodes.ts'
import { launcherPod } from './launcher-pod.ts'

const { spec } = storedVm()
const podWith = (affinity?: Affinity) =>
  launcherPod(storedVm({ spec: { ...spec, ...(affinity && { affinity }) } }), { image: 'i', claims: new Map() })
const not = (name: string) => ({ key: 'metadata.name', operator: 'NotIn' as const, values: [name] })
const zone = { key: 'zone', operator: 'In' as const, values: ['a'] }
const required = (...nodeSelectorTerms: object[]) => ({
  nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
})

test('a pod that that may run on all nodes is unchanged', () => {
  const pod = podWith()
  expect(excludeNodes(pod, [])).toBe(pod)
})

test.each<[string, Affinity | undefined, Affinity]>([
  ['without any affinity', undefined, required({ matchFields: [not('a'), not('b')] })],
  [
    'with another affinity',
    { podAntiAffinity: {} },
    { podAntiAffinity: {}, ...required({ matchFields: [not('a'), not('b')] }) },
  ],
  [
    'with terms of its own: each of them',
    required({ matchExpressions: [zone] }, { matchFields: [not('c')] }),
    required(
      { matchExpressions: [zone], matchFields: [not('a'), not('b')] },
      { matchFields: [not('c'), not('a'), not('b')] },
    ),
  ],
])('a pod %s avoids nodes', (_, affinity, expected) => {
  expect(excludeNodes(podWith(affinity), ['a', 'b']).spec.affinity).toEqual(expected)
})

test('avoids at most a hundred nodes', () => {
  const { affinity } = excludeNodes(
    podWith(),
    Array.from({ length: 200 }, (_, index) => `n${index}`),
  ).spec
  const [term] = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? []
  expect(term?.matchFields?.length).toBe(100)
})
