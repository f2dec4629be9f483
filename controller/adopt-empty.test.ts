import { expect, test } from 'vitest'
import type { Probes } from '../api/probe.ts'
import type { Placement } from '../api/placement.ts'
import { storedVm } from '../test/stored-vm.ts'
import { differenceFrom } from './adopt.ts'
import { attachmentPod } from './attachment-pod.ts'
import { launcherPod } from './launcher-pod.ts'
import type { Pod } from './pod.ts'

const vm = storedVm()
const podOf = (more: Placement & Probes) =>
  launcherPod({ ...vm, spec: { ...vm.spec, ...more } }, { image: 'i', claims: new Map() })
/** As another client could create it: with what a VM without these fields has, and these. */
const found = (more: object): Pod => ({ ...podOf({}), spec: { ...podOf({}).spec, ...more } })
const near = (term: object) => ({
  podAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: 'a', ...term }] },
})
const nodes = (...matchExpressions: { key: string; operator: 'Exists' | 'In'; values?: string[] }[]) => ({
  nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions }] } },
})
const [compute] = podOf({}).spec.containers
const probed = (readinessProbe: object) => ({ containers: [{ ...compute, readinessProbe }] })

/** As a real API server stores them. */
test.each<[string, Placement & Probes, object]>([
  [
    'a toleration with an empty value',
    { tolerations: [{ key: 'a', operator: 'Equal', value: '' }] },
    { tolerations: [{ key: 'a', operator: 'Equal' }] },
  ],
  [
    'a toleration with an empty key',
    { tolerations: [{ key: '', operator: 'Exists' }] },
    { tolerations: [{ operator: 'Exists' }] },
  ],
  [
    'empty labels of a selector',
    { affinity: near({ labelSelector: { matchLabels: {} }, namespaceSelector: { matchLabels: {} } }) },
    { affinity: near({ labelSelector: {}, namespaceSelector: {} }) },
  ],
  [
    'empty values',
    { affinity: nodes({ key: 'a', operator: 'Exists', values: [] }) },
    { affinity: nodes({ key: 'a', operator: 'Exists' }) },
  ],
  [
    'a probe that begins at once, with an empty path',
    { readinessProbe: { httpGet: { port: 80, path: '' }, initialDelaySeconds: 0 } },
    probed({ httpGet: { port: 80, path: '/', scheme: 'HTTP' }, timeoutSeconds: 1, periodSeconds: 10 }),
  ],
])('the pod of a VM with %s is its own as the API server stores it', (_, stated, stored) => {
  expect(differenceFrom(podOf(stated), found(stored))).toBeUndefined()
})

/** Where an absent field means something else, a user could place the pod elsewhere. */
test.each<[string, Placement & Probes, object]>([
  [
    'the value of a toleration',
    { tolerations: [{ key: 'a', operator: 'Equal', value: '' }] },
    { tolerations: [{ key: 'a', operator: 'Equal', value: 'b' }] },
  ],
  [
    'the seconds of a toleration',
    { tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 0 }] },
    { tolerations: [{ key: 'a', operator: 'Exists', effect: 'NoExecute' }] },
  ],
  ['a selector of all pods', { affinity: near({ labelSelector: { matchLabels: {} } }) }, { affinity: near({}) }],
  ['a selector of all namespaces', { affinity: near({ namespaceSelector: {} }) }, { affinity: near({}) }],
  [
    'an empty label of a selector',
    { affinity: near({ labelSelector: { matchLabels: { values: '', matchLabels: '' } } }) },
    { affinity: near({ labelSelector: {} }) },
  ],
  [
    'an empty value of a requirement',
    { affinity: nodes({ key: 'a', operator: 'In', values: [''] }) },
    { affinity: nodes({ key: 'a', operator: 'In', values: ['b'] }) },
  ],
  ['an empty label of the node', { nodeSelector: { a: '' } }, { nodeSelector: {} }],
  [
    'the value of a header',
    { readinessProbe: { httpGet: { port: 80, httpHeaders: [{ name: 'a', value: '' }] } } },
    probed({ httpGet: { port: 80, httpHeaders: [{ name: 'a' }] } }),
  ],
  [
    'the path of a probe',
    { readinessProbe: { httpGet: { port: 80, path: '' } } },
    probed({ httpGet: { port: 80, path: '/other' } }),
  ],
  [
    'the start of a probe',
    { readinessProbe: { tcpSocket: { port: 80 }, initialDelaySeconds: 0 } },
    probed({ tcpSocket: { port: 80 }, initialDelaySeconds: 5 }),
  ],
])('a pod without %s is not that of the VM', (_, stated, stored) => {
  expect(differenceFrom(podOf(stated), found(stored))).toBeDefined()
})

test('the pod of an attached volume is its own as the API server stores its tolerations', () => {
  const volume = { name: 'v', persistentVolumeClaim: { claimName: 'c' } }
  const of = (tolerations: Placement['tolerations'] = []) =>
    attachmentPod({ ...vm, spec: { ...vm.spec, tolerations } }, volume, {
      image: 'i',
      claim: { metadata: { name: 'c' } },
    })
  const stated = of([{ key: '', operator: 'Exists', value: '' }])
  expect(differenceFrom(stated, of([{ operator: 'Exists' }]))).toBeUndefined()
  expect(differenceFrom(stated, of())).toBe('spec.tolerations[0]')
})
