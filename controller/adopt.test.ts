import { expect, test } from 'vitest'
import { storedVm } from '../test/stored-vm.ts'
import { differenceFrom } from './adopt.ts'
import { launcherPod } from './launcher-pod.ts'
import type { Pod } from './pod.ts'

const vm = storedVm()
const claims = new Map([['block', { metadata: { name: 'block' }, spec: { volumeMode: 'Block' as const } }]])
const volumes = [
  { name: 'root', persistentVolumeClaim: { claimName: 'block' } },
  { name: 'scratch', emptyDisk: { capacity: '999000000' } },
]
const expected = launcherPod(
  {
    ...vm,
    spec: { ...vm.spec, volumes, nodeSelector: { a: 'b' }, tolerations: [{ key: 'k', operator: 'Exists' }] },
  },
  { image: 'launcher:1', claims },
)
const { spec } = expected
const [compute] = spec.containers

const withSpec = (over: object): Pod => ({ ...expected, spec: { ...spec, ...over } })
const withCompute = (over: object): Pod => withSpec({ containers: [{ ...compute, ...over }] })
const without = (key: string, object: object = spec): object =>
  Object.fromEntries(Object.entries(object).filter(([one]) => one !== key))

const expressions = Array.from({ length: 100 }, (_, index) => ({
  key: 'a',
  operator: 'NotIn',
  values: Array.from({ length: 20 }, (_each, value) => `${index}-${value}`),
}))
const affinityOf = (matchExpressions: readonly object[]) => ({
  nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions }] } },
})

test('a pod takes a number of comparisons that is linear in its size', () => {
  const one = withSpec({ affinity: affinityOf(expressions) })
  expect(differenceFrom(one, structuredClone(one))).toBeUndefined()
  // To find each of them elsewhere would take the square.
  const other = withSpec({ affinity: affinityOf(expressions.toReversed()) })
  expect(differenceFrom(one, other)).toMatch(/^spec.affinity.nodeAffinity/)
})

test.each<[string, Pod, string | undefined]>([
  ['itself', expected, undefined],
  [
    'as the API server stores it, without empty lists, and with the size limits of another release',
    withSpec({
      containers: [without('volumeDevices', { ...compute })].map((one) => ({
        ...one,
        volumeDevices: compute?.volumeDevices,
      })),
      volumes: spec.volumes.map((volume) => (volume.name === 'volume-1' ? { ...volume, emptyDir: {} } : volume)),
      dnsPolicy: 'ClusterFirst',
      nodeName: 'n1',
    }),
    undefined,
  ],
  [
    'with what admission adds',
    withSpec({
      tolerations: [{ key: 'node.kubernetes.io/not-ready', operator: 'Exists' }, ...(spec.tolerations ?? [])],
      nodeSelector: { zone: 'z', a: 'b' },
      containers: [
        { name: 'sidecar', image: 'mesh:1' },
        {
          ...compute,
          imagePullPolicy: 'Always',
          resources: { limits: { cpu: '1' } },
          env: [...(compute?.env ?? []), { name: 'A', value: '1' }],
        },
      ],
      priority: 0,
    }),
    undefined,
  ],
  ['with another grace period', withSpec({ terminationGracePeriodSeconds: 5 }), undefined],
  ['with another image', withCompute({ image: 'evil:1' }), 'spec.containers[compute].image'],
  ['with a command', withCompute({ command: ['sh'] }), 'spec.containers[compute].command'],
  ['with arguments', withCompute({ args: ['-c'] }), 'spec.containers[compute].args'],
  ['with a hook', withCompute({ lifecycle: {} }), 'spec.containers[compute].lifecycle'],
  ['without the VM’s uid', withCompute({ env: [] }), 'spec.containers[compute].env[VIRTSET_VM_UID]'],
  ['without a device', withCompute({ volumeDevices: [] }), 'spec.containers[compute].volumeDevices[volume-0]'],
  ['with another container', withSpec({ containers: [{ ...compute, name: 'other' }] }), 'spec.containers[compute]'],
  ['with a token', withSpec({ automountServiceAccountToken: true }), 'spec.automountServiceAccountToken'],
  [
    'with another claim',
    withSpec({
      volumes: spec.volumes.map((volume) =>
        volume.name === 'volume-0' ? { name: 'volume-0', persistentVolumeClaim: { claimName: 'other' } } : volume,
      ),
    }),
    'spec.volumes[volume-0].persistentVolumeClaim.claimName',
  ],
  [
    'as another user',
    withSpec({ securityContext: { ...spec.securityContext, runAsUser: 0 } }),
    'spec.securityContext.runAsUser',
  ],
  ['without its node selector', withSpec({ nodeSelector: {} }), 'spec.nodeSelector.a'],
  ['without a toleration', withSpec({ tolerations: [] }), 'spec.tolerations[0]'],
])('a pod %s', (_, pod, difference) => {
  expect(differenceFrom(expected, pod)).toBe(difference)
})
