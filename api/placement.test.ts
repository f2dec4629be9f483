import { describe, expect, test } from 'vitest'
import type { PodTerm } from './affinity.ts'
import type { VirtualMachineSpec } from './virtual-machine.ts'
import { checkPlacement } from './placement.ts'
import { renderCause } from './refusal.ts'

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
                labelSelector: { matchLabels: { a: 'x' }, matchExpressions: [{ key: 'c', operator: 'Exists' }] },
                matchLabelKeys: ['b'],
                mismatchLabelKeys: ['a', 'c', 'd', 'd'],
              },
              { topologyKey: 'a', labelSelector: {}, matchLabelKeys: ['b'] },
              { topologyKey: 'a', matchLabelKeys: [], mismatchLabelKeys: [] },
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
        `label-keys ${pods}.matchLabelKeys[0]`,
      ],
    ],
  ])('%s', (_, spec, expected) => expect(problems(spec)).toEqual(expected))

  const withoutSelector = 'Forbidden: must not be set without labelSelector; labelSelector: {} selects all pods'
  test.each<[string, Omit<PodTerm, 'topologyKey'>, string[]]>([
    ['without a selector', { matchLabelKeys: ['a'] }, [`matchLabelKeys: ${withoutSelector}`]],
    [
      'of both lists, without a selector',
      { matchLabelKeys: ['a'], mismatchLabelKeys: ['a'] },
      [`matchLabelKeys: ${withoutSelector}`, `mismatchLabelKeys: ${withoutSelector}`],
    ],
    [
      'in both lists',
      { labelSelector: {}, matchLabelKeys: ['a', 'b'], mismatchLabelKeys: ['c', 'b'] },
      ['matchLabelKeys[1]: Invalid value: "b": must not be in mismatchLabelKeys too; remove it from one of them'],
    ],
    [
      'in the selector',
      {
        labelSelector: { matchLabels: { a: 'x' }, matchExpressions: [{ key: 'b', operator: 'Exists' }] },
        matchLabelKeys: ['a', 'b', 'c'],
      },
      [
        'matchLabelKeys[0]: Invalid value: "a": must not be in labelSelector too; remove it from one of them',
        'matchLabelKeys[1]: Invalid value: "b": must not be in labelSelector too; remove it from one of them',
      ],
    ],
    [
      'twice',
      { labelSelector: {}, matchLabelKeys: ['a', 'b', 'a'] },
      ['matchLabelKeys[2]: Duplicate value: "a": is already in the list'],
    ],
  ])('with keys of labels %s', (_, term, expected) => {
    const terms = { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: 'a', ...term }] }
    const causes = checkPlacement({ affinity: { podAntiAffinity: terms } }, 'spec')
    expect(causes.map((cause) => `${cause.field}: ${renderCause(cause)}`)).toEqual(
      expected.map((text) => `${pods}.${text}`),
    )
  })
})
