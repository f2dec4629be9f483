import type { Target } from '../api/object-preset.ts'
import { groupOf, versionOf } from '../api/preset-target.ts'

/** The kinds, objects and fields of the benchmark of presets for objects, and the same policy without webhooks. */

export const targets: readonly Target[] = [
  { apiVersion: 'v1', kind: 'Pod' },
  { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance' },
]

export const resourceOf = (kind: string): string => (kind === 'Pod' ? 'pods' : 'virtualmachineinstances')

/** The three fields that are set, by path. */
export const fieldsOf = (kind: string): readonly (readonly [path: readonly string[], value: string | number])[] =>
  kind === 'Pod'
    ? [
        [['spec', 'hostname'], 'web'],
        [['spec', 'activeDeadlineSeconds'], 3600],
        [['spec', 'runtimeClassName'], 'sandbox'],
      ]
    : [
        [['spec', 'hostname'], 'guest'],
        [['spec', 'terminationGracePeriodSeconds'], 30],
        [['spec', 'evictionStrategy'], 'LiveMigrate'],
      ]

const container = {
  name: 'main',
  image: 'registry.example.org/web:1',
  ports: [{ containerPort: 80 }],
  env: [{ name: 'LEVEL', value: 'info' }],
  resources: { requests: { cpu: '100m', memory: '64Mi' } },
}
const pod = {
  automountServiceAccountToken: false,
  containers: [container, { ...container, name: 'side', ports: [{ containerPort: 81 }] }],
  volumes: [{ name: 'data', emptyDir: {} }],
}
const instance = {
  domain: {
    memory: { guest: '128Mi' },
    devices: {
      disks: [
        { name: 'root', disk: { bus: 'virtio' } },
        { name: 'cloud', disk: { bus: 'virtio' } },
      ],
      interfaces: [{ name: 'default', masquerade: {} }],
    },
  },
  networks: [{ name: 'default', pod: {} }],
  volumes: [
    { name: 'root', containerDisk: { image: 'registry.example.org/cirros:1' } },
    { name: 'cloud', cloudInitNoCloud: { userData: '#cloud-config' } },
  ],
}

export const objectOf = ({ apiVersion, kind }: Target, labels: object) => ({
  apiVersion,
  kind,
  metadata: { name: 'bench', labels },
  spec: kind === 'Pod' ? pod : instance,
})

/**
 * MutatingAdmissionPolicies with their bindings. Each sets one field that is not set; three select objects with the
 * label `policies: bench`.
 */
export const policiesFor = ({ apiVersion, kind }: Target, count: number): readonly object[] =>
  Array.from({ length: count }).flatMap((_, index) => {
    const fields = fieldsOf(kind)
    const [path, value] = fields[index % fields.length] ?? [[], '']
    const name = `${resourceOf(kind)}-${index}`
    const field = path.at(-1) ?? ''
    const policy = {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingAdmissionPolicy',
      metadata: { name },
      spec: {
        failurePolicy: 'Fail',
        reinvocationPolicy: 'IfNeeded',
        matchConstraints: {
          resourceRules: [
            {
              apiGroups: [groupOf(apiVersion)],
              apiVersions: [versionOf(apiVersion)],
              operations: ['CREATE'],
              resources: [resourceOf(kind)],
            },
          ],
          objectSelector: { matchLabels: { policies: index < 3 ? 'bench' : `team-${index}` } },
        },
        matchConditions: [{ name: 'unset', expression: `!has(object.${path.join('.')})` }],
        mutations: [
          {
            patchType: 'ApplyConfiguration',
            applyConfiguration: { expression: `Object{spec: Object.spec{${field}: ${JSON.stringify(value)}}}` },
          },
        ],
      },
    }
    const binding = {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingAdmissionPolicyBinding',
      metadata: { name },
      spec: { policyName: name },
    }
    return [policy, binding]
  })
