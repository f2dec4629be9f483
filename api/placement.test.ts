import { describe, expect, test } from 'vitest'
import type { VirtualMachineSpec } from './virtual-machine.ts'
import { checkPlacement } from './placement.ts'

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
  ])('%s', (_, spec, expected) => expect(problems(spec)).toEqual(expected))
})
