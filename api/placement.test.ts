import { describe, expect, test } from 'vitest'
import type { VirtualMachineSpec } from './virtual-machine.ts'
import { checkPlacement } from './placement.ts'

const nodes = 'spec.affinity.nodeAffinity'
const preference = `${nodes}.preferredDuringSchedulingIgnoredDuringExecution[0].preference`
const pods = 'spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]'

/** @param each half of the requirements of a term */
function requiring(terms: number, each: number): Partial<VirtualMachineSpec> {
  const term = {
    matchExpressions: Array.from({ length: each }, () => ({ key: 'a', operator: 'Exists' as const })),
    matchFields: Array.from({ length: each }, () => ({
      key: 'metadata.name',
      operator: 'In' as const,
      values: ['a'],
    })),
  }
  const nodeSelectorTerms = Array.from({ length: terms }, () => term)
  return { affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } } }
}

describe('a placement', () => {
  const problems = (spec: Partial<VirtualMachineSpec>) =>
    checkPlacement(spec, 'spec').map(({ rule, field }) => `${rule} ${field}`)

  test.each<[string, Partial<VirtualMachineSpec>, string[]]>([
    ['empty', {}, []],
    [
      'of every kind',
      {
        nodeSelector: { 'kubernetes.io/os': 'linux', ssd: '' },
        priorityClassName: 'high',
        tolerations: [{ operator: 'Exists' }, { key: 'a', value: 'b', effect: 'NoExecute', tolerationSeconds: 5 }],
      },
      [],
    ],
    [
      'on invalid labels',
      { nodeSelector: { 'a b': '-' } },
      ['label-key spec.nodeSelector[a b]', 'label-value spec.nodeSelector[a b]'],
    ],
    ['of an invalid class', { priorityClassName: 'High' }, ['priority-class-name spec.priorityClassName']],
    [
      'with tolerations that the API server refuses on a pod',
      {
        tolerations: [
          { value: 'x' },
          { key: '/', operator: 'Exists', value: 'x' },
          { key: 'a', value: 'b c' },
          { key: 'a', tolerationSeconds: 1 },
        ],
      },
      [
        'toleration-operator spec.tolerations[0].operator',
        'label-key spec.tolerations[1].key',
        'toleration-value spec.tolerations[1].value',
        'label-value spec.tolerations[2].value',
        'toleration-effect spec.tolerations[3].effect',
      ],
    ],
    [
      'with an affinity',
      {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [
                {},
                {
                  matchExpressions: [
                    { key: 'cpus', operator: 'Gt', values: ['4'] },
                    { key: 'example.com/gpu', operator: 'Exists' },
                    { key: 'zone', operator: 'In', values: ['a', 'b'] },
                  ],
                  matchFields: [{ key: 'metadata.name', operator: 'NotIn', values: ['node-1.example.com'] }],
                },
              ],
            },
          },
          podAntiAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [
              {
                topologyKey: 'kubernetes.io/hostname',
                namespaces: ['a'],
                namespaceSelector: {},
                matchLabelKeys: ['b'],
              },
            ],
          },
        },
      },
      [],
    ],
    ['with as many requirements on nodes as all terms may have', requiring(8, 16), []],
    [
      'with more',
      requiring(9, 15),
      [`affinity-size ${nodes}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`],
    ],
    [
      'with nodes that the API server refuses on a pod',
      {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [] },
            preferredDuringSchedulingIgnoredDuringExecution: [
              {
                preference: {
                  matchExpressions: [
                    { key: '!', operator: 'Exists', values: ['a'] },
                    { key: 'a', operator: 'In' },
                    { key: 'a', operator: 'NotIn', values: ['a', '!'] },
                    { key: 'a', operator: 'Lt', values: ['1', '2'] },
                  ],
                  matchFields: [
                    { key: 'metadata.uid', operator: 'In', values: ['a'] },
                    { key: 'metadata.name', operator: 'In', values: ['a', 'b'] },
                  ],
                },
              },
            ],
          },
        },
      },
      [
        `node-terms ${nodes}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`,
        `label-key ${preference}.matchExpressions[0].key`,
        `selector-values ${preference}.matchExpressions[0].values`,
        `selector-values ${preference}.matchExpressions[1].values`,
        `label-value ${preference}.matchExpressions[2].values[1]`,
        `selector-values ${preference}.matchExpressions[3].values`,
        `node-field ${preference}.matchFields[0]`,
        `node-field ${preference}.matchFields[1]`,
      ],
    ],
    [
      'with pods that the API server refuses',
      {
        affinity: {
          podAffinity: {
            preferredDuringSchedulingIgnoredDuringExecution: [{ podAffinityTerm: { topologyKey: '' } }],
          },
          podAntiAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: [
              {
                topologyKey: 'a',
                labelSelector: { matchLabels: { a: '!' } },
                namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'In' }] },
                namespaces: ['A'],
                matchLabelKeys: ['!'],
                mismatchLabelKeys: ['!'],
              },
            ],
          },
        },
      },
      [
        'label-key spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm.topologyKey',
        `label-value ${pods}.labelSelector.matchLabels[a]`,
        `selector-values ${pods}.namespaceSelector.matchExpressions[0].values`,
        `namespace-name ${pods}.namespaces[0]`,
        `label-key ${pods}.matchLabelKeys[0]`,
        `label-key ${pods}.mismatchLabelKeys[0]`,
      ],
    ],
  ])('%s', (_, spec, expected) => expect(problems(spec)).toEqual(expected))
})
