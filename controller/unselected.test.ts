import { expect, test } from 'vitest'
import type { LabelSelector } from '../api/object.ts'
import type { PresetSpec } from '../api/preset.ts'
import { templateRevisionAnnotation } from '../api/template.ts'
import { completeWith } from '../inventory/complete.ts'
import { emptyInventory } from '../inventory/inventory.ts'
import { compileSelector } from '../presets/selector.ts'
import { candidatesOf, preset } from '../test/preset.ts'
import { storedVm } from '../test/stored-vm.ts'
import { whyNeverSelected, whyUnselected } from './unselected.ts'

type Labels = { readonly [key: string]: string }

const app = { matchLabels: { app: 'web' } }
const exclude: LabelSelector = { matchExpressions: [{ key: 'example.com/tier', operator: 'DoesNotExist' }] }
const setting = (labels: Labels): Partial<PresetSpec> => ({ metadata: { labels } })
const enforcing = (labels: Labels): Partial<PresetSpec> => ({ strength: 'Enforce', ...setting(labels) })

const created = { [templateRevisionAnnotation]: 'r' }

/** A VM with the label `app: web`, completed with a preset. */
function completed(spec: Partial<PresetSpec>, annotations: Labels = created) {
  const inventory = { ...emptyInventory(), candidates: candidatesOf(preset('p', spec, 'default')) }
  const { metadata, ...rest } = storedVm({ metadata: { labels: { app: 'web' } } })
  const outcome = completeWith(
    inventory,
    { ...rest, metadata: { ...metadata, annotations } },
    { namespace: 'default', uid: 'u' },
  )
  if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes))
  return outcome.vm
}

const other = 'VMs of this group get the label app=other, set by preset "default/p", but spec.selector requires app=web'
const tier =
  'VMs of this group get the label example.com/tier=gold, set by preset "default/p", but spec.selector requires !example.com/tier'

test.each<[string, Partial<PresetSpec>, LabelSelector, readonly (string | undefined)[]]>([
  ['that sets nothing', {}, app, [undefined, undefined]],
  ['that sets the same', enforcing({ app: 'web' }), app, [undefined, undefined]],
  ['that loses to the label of the template', setting({ app: 'other' }), app, [undefined, undefined]],
  ['that enforces another value', enforcing({ app: 'other' }), app, [other, other]],
  ['that enforces an excluded label', enforcing({ 'example.com/tier': 'gold' }), exclude, [tier, tier]],
  [
    'that adds an excluded label, which users can change',
    setting({ 'example.com/tier': 'gold' }),
    exclude,
    [tier, undefined],
  ],
])('a VM with a preset %s', (_, spec, selector, expected) => {
  const vm = completed(spec)
  expect([whyUnselected(compileSelector(selector), vm), whyNeverSelected(compileSelector(selector), vm)]).toEqual(
    expected,
  )
})

test.each<[string, Labels, string]>([
  ['the value', { app: 'other' }, 'the label app=other'],
  ['nothing', {}, 'no label app'],
])('without provenance, the reason is %s', (_, labels, what) => {
  const vm = storedVm({ metadata: { labels } })
  expect(whyUnselected(compileSelector(app), vm)).toBe(
    `VMs of this group get ${what}, but spec.selector requires app=web`,
  )
  expect(whyNeverSelected(compileSelector(app), vm)).toBeUndefined()
})

test('an enforced label counts even if a user has changed another one that the selector requires', () => {
  const vm = completed(enforcing({ 'example.com/tier': 'gold' }))
  const relabelled = { ...vm, metadata: { ...vm.metadata, labels: { ...vm.metadata.labels, app: 'other' } } }
  expect(whyNeverSelected(compileSelector({ ...app, ...exclude }), relabelled)).toBe(tier)
})

test('a VM that was not created from a template has been selected before', () => {
  const vm = completed(enforcing({ app: 'other' }), {})
  const selector = compileSelector(app)
  expect([whyUnselected(selector, vm), whyNeverSelected(selector, vm)]).toEqual([other, undefined])
})
