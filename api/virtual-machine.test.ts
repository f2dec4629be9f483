import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseVirtualMachine } from './virtual-machine.ts'

const vm = (spec: unknown, metadata: unknown = { name: 'vm' }) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata,
  spec,
})

describe('parsing a VM', () => {
  test('returns the same object if it is valid', () => {
    const given = vm({
      domain: { type: 'qemu' },
      volumes: [{ name: 'a', cloudInit: {} }],
      affinity: { nodeAffinity: {} },
    })
    const parsed = parseVirtualMachine(given)
    expect('vm' in parsed && parsed.vm).toBe(given)
  })

  test.each([
    ['source', { empty: {} }, /^an attached claim is not filled; fill it first, as a volume/],
    ['capacity', '1Gi', /^the disk has the size of the claim$/],
  ])('says what to do instead of the %s of an attached claim', (field, value, suggestion) => {
    const persistentVolumeClaim = { claimName: 'c', [field]: value }
    const parsed = parseVirtualMachine(vm({ domain: {}, attachedVolumes: [{ name: 'a', persistentVolumeClaim }] }))
    expect(parsed).toEqual({
      causes: [
        {
          rule: 'unknown-field',
          field: `spec.attachedVolumes[0].persistentVolumeClaim.${field}`,
          value,
          reason: 'FieldValueInvalid',
          message: 'there is no such field',
          suggestion: expect.stringMatching(suggestion),
        },
      ],
    })
  })

  test.each<[string, unknown, string[]]>([
    ['null', null, ['type ']],
    ['nothing but a kind', { kind: 'VirtualMachine' }, ['required metadata', 'required spec']],
    ['labels that are not text', vm({ domain: {} }, { labels: { a: 1 } }), ['type metadata.labels[a]']],
    [
      'a wrong domain beside other faults',
      vm({ domain: { typo: 1 }, tolerations: {} }),
      ['type spec.tolerations', 'unknown-field spec.domain.typo'],
    ],
    [
      'affinity with holes',
      vm({
        domain: {},
        affinity: { podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 101 }] } },
      }),
      [
        'required spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm',
        'range spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight',
      ],
    ],
    [
      'times that Kubernetes stores in 32 bits, and some that no date or number can follow',
      vm({
        domain: {},
        tolerations: [-(2 ** 53), 1 - 2 ** 53, 2 ** 53 - 1, 2 ** 53].map((tolerationSeconds) => ({
          tolerationSeconds,
        })),
        terminationGracePeriodSeconds: 2 ** 53 - 1,
        readinessProbe: { tcpSocket: { port: 80 }, periodSeconds: 2 ** 31, failureThreshold: 1e300 },
      }),
      [
        'range spec.tolerations[0].tolerationSeconds',
        'range spec.tolerations[3].tolerationSeconds',
        'range spec.terminationGracePeriodSeconds',
        'range spec.readinessProbe.periodSeconds',
        'range spec.readinessProbe.failureThreshold',
      ],
    ],
    [
      'two volumes with the same name',
      vm({
        domain: {},
        volumes: [
          { name: 'a', cloudInit: {} },
          { name: 'a', cloudInit: {} },
        ],
      }),
      ['list-key spec.volumes[1].name'],
    ],
  ])('refuses %s', (_, given, expected) => {
    const parsed = parseVirtualMachine(given)
    expect('causes' in parsed ? parsed.causes.map(({ rule, field }) => `${rule} ${field}`) : []).toEqual(expected)
  })

  test('never throws, for any JSON', () => {
    const property = fc.property(fc.jsonValue(), fc.jsonValue(), (spec, metadata) => {
      const parsed = parseVirtualMachine(vm(spec, metadata))
      return 'vm' in parsed || parsed.causes.length > 0
    })
    expect(fc.check(property).failed).toBe(false)
  })
})
