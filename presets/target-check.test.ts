import { describe, expect, test } from 'vitest'
import type { Cause } from '../api/cause.ts'
import type { PresetTarget } from '../api/preset-target.ts'
import { gadgetCrd, gadgetTarget } from '../test/presets/objects.ts'
import { kindsIn } from './object-kind.ts'
import { checkPresetTarget, targetName, type ServedKind } from './target-check.ts'

function served(scope: 'Namespaced' | 'Cluster'): ServedKind {
  const read = kindsIn({ ...gadgetCrd, spec: { ...gadgetCrd.spec, scope } })?.get('Gadget of example.com/v1')?.()
  if (read === undefined || !('kind' in read)) throw new Error('the definition has no kind')
  return { kind: read.kind, resource: 'gadgets' }
}

const target = (
  name: string,
  restricted?: readonly string[],
  more: Partial<PresetTarget['spec']> = {},
): PresetTarget => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'PresetTarget',
  metadata: { name },
  spec: { ...gadgetTarget, failurePolicy: 'Fail', ...(restricted === undefined ? {} : { restricted }), ...more },
})

const invalid = (field: string, value: unknown, message: string): Cause => ({
  rule: 'preset-target',
  field,
  value,
  reason: 'FieldValueInvalid',
  message,
})
const wrongName = invalid('metadata.name', 'gadgets', 'must be "gadgets.example.com"')
const inNamespaces = { namespaceSelector: {} }
const clusterScoped = invalid('spec.namespaceSelector', undefined, 'must be absent: a Gadget is in no namespace')

test.each<[string, string, string]>([
  ['deployments', 'apps/v1', 'deployments.apps'],
  ['pods', 'v1', 'pods'],
])('the target for %s of %s is called %s', (resource, apiVersion, name) =>
  expect(targetName(resource, apiVersion)).toBe(name),
)

describe('a target', () => {
  test.each<[string, PresetTarget, ServedKind, readonly object[]]>([
    ['with the name of its kind is accepted', target('gadgets.example.com'), served('Namespaced'), []],
    ['with another name is refused', target('gadgets'), served('Namespaced'), [wrongName]],
    ['in some namespaces is accepted', target('gadgets.example.com', [], inNamespaces), served('Namespaced'), []],
    ['of a cluster-scoped kind is accepted', target('gadgets.example.com'), served('Cluster'), []],
    [
      'of a cluster-scoped kind in some namespaces is refused',
      target('gadgets.example.com', [], inNamespaces),
      served('Cluster'),
      [clusterScoped],
    ],
    [
      'restricting fields of its kind is accepted',
      target('gadgets.example.com', ['spec.size', 'spec.parts[*].weight']),
      served('Namespaced'),
      [],
    ],
    [
      'is refused with all causes at once',
      target('gadgets', ['spec.size', 'spec.sise'], inNamespaces),
      served('Cluster'),
      [
        wrongName,
        clusterScoped,
        {
          ...invalid('spec.restricted[1]', 'spec.sise', 'there is no field sise'),
          suggestion: 'did you mean "size"?',
        },
      ],
    ],
    [
      'of a kind that cannot be used is refused with the reasons',
      target('gadgets', ['spec.sise']),
      { causes: [invalid('spec.kind', 'Gadget', 'is recursive')] },
      [invalid('spec.kind', 'Gadget', 'is recursive')],
    ],
  ])('%s', (_, one, kind, causes) => expect(checkPresetTarget(one, kind)).toEqual(causes))
})
