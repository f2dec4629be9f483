import { expect, test } from 'vitest'
import type { Taint } from '../api/node-profile.ts'
import type { NodeRequirement, NodeTerm } from '../api/affinity.ts'
import { nodeProfile } from '../test/node-profile.ts'
import { fitsOn, type Place } from './fit.ts'

const gpu: Taint = { key: 'gpu', value: 'a100', effect: 'NoSchedule' }
const required = (...nodeSelectorTerms: NodeTerm[]): Place => ({
  affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } } },
})
const label = (key: string, operator: NodeRequirement['operator'], ...values: string[]): Place =>
  required({ matchExpressions: [{ key, operator, values }] })

const cases: [sentence: string, isFit: boolean, place: Place, taints?: Taint[]][] = [
  ['a VM without placement fits anywhere', true, {}],
  ['a label is as selected', true, { nodeSelector: { zone: 'a', cores: '8' } }],
  ['a label is not as selected', false, { nodeSelector: { zone: 'b' } }],
  ['a label is not there', false, { nodeSelector: { rack: '1' } }],
  ['no key of an object is a label', false, { nodeSelector: { constructor: 'a' } }],
  ['In', true, label('zone', 'In', 'a', 'b')],
  ['not In', false, label('zone', 'In', 'b')],
  ['In a missing label', false, label('rack', 'In', 'a')],
  ['NotIn', true, label('zone', 'NotIn', 'b')],
  ['not NotIn', false, label('zone', 'NotIn', 'a')],
  ['NotIn a missing label', true, label('rack', 'NotIn', 'a')],
  ['Exists', true, label('zone', 'Exists')],
  ['DoesNotExist', false, label('zone', 'DoesNotExist')],
  ['Gt', true, label('cores', 'Gt', '7')],
  ['not Gt', false, label('cores', 'Gt', '8')],
  ['Lt', true, label('cores', 'Lt', '10')],
  ['Gt of a value that is not a number', false, label('zone', 'Gt', '1')],
  [
    'one of several terms',
    true,
    required(
      { matchExpressions: [{ key: 'rack', operator: 'Exists' }] },
      { matchExpressions: [{ key: 'zone', operator: 'Exists' }] },
    ),
  ],
  [
    'all of a term',
    false,
    required({
      matchExpressions: [
        { key: 'zone', operator: 'Exists' },
        { key: 'rack', operator: 'Exists' },
      ],
    }),
  ],
  [
    'the node by its name',
    true,
    required({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['one'] }] }),
  ],
  [
    'another node by its name',
    false,
    required({ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['two'] }] }),
  ],
  ['an empty term matches no node', false, required({})],
  ['an empty list of terms matches no node', false, required()],
  [
    'preferences are ignored',
    true,
    { affinity: { nodeAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } } },
  ],
  ['a taint is not tolerated', false, {}, [gpu]],
  ['a taint with PreferNoSchedule is ignored', true, {}, [{ ...gpu, effect: 'PreferNoSchedule' }]],
  ['a taint of another value', false, { tolerations: [{ key: 'gpu', value: 'h100' }] }, [gpu]],
  ['a tolerated taint', true, { tolerations: [{ key: 'gpu', value: 'a100', effect: 'NoSchedule' }] }, [gpu]],
  [
    'a taint of another effect',
    false,
    { tolerations: [{ key: 'gpu', operator: 'Exists', effect: 'NoExecute' }] },
    [gpu],
  ],
  ['a key that is tolerated with any value', true, { tolerations: [{ key: 'gpu', operator: 'Exists' }] }, [gpu]],
  ['everything is tolerated', true, { tolerations: [{ operator: 'Exists' }] }, [gpu]],
]

test.each(cases)('%s: %j', (_, isFit, place, taints = []) => {
  const node = nodeProfile('one', undefined, { labels: { zone: 'a', cores: '8' }, taints })
  expect(fitsOn(place)(node)).toBe(isFit)
})
