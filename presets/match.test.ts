import { describe, expect, test } from 'vitest'
import { clusterPreset, injectSmall, preset, vmWith } from '../test/presets/make.ts'
import type { CompiledPreset } from './compile.ts'
import { exemptionsToAuthorize } from './exclude.ts'

const title = (text: string, others = {}) => ({ domain: { title: text }, ...others })
const when = (...expressions: string[]) => ({
  matchConditions: expressions.map((expression, index) => ({ name: `c${index}`, expression })),
})
const titleOf = (presets: readonly CompiledPreset[], options = {}, annotations = {}) => {
  const { vm, causes, warnings } = injectSmall(vmWith({}, { annotations }), presets, options)
  return { domain: vm.spec.domain, causes: causes.map(({ message }) => message), warnings }
}

describe('conditions', () => {
  const request = { userInfo: { username: 'jane', groups: ['devs'] } }
  test.each<[string, readonly string[], boolean]>([
    ['all are true', ['object.metadata.name == "vm"', '"devs" in request.userInfo.groups'], true],
    ['the namespace has that name', ['namespaceObject.metadata.name == "team"'], true],
    ['one is false', ['true', 'request.userInfo.username == "joe"'], false],
    ['one is false and another fails', ['object.gone.deeper', 'false'], false],
  ])('if %s: a preset applies: %s', (_, expressions, isIn) => {
    const given = preset('p', title('a', { strength: 'Enforce', ...when(...expressions) }))
    expect(titleOf([given], { request })).toEqual({ domain: isIn ? { title: 'a' } : {}, causes: [], warnings: [] })
  })

  test('see the annotations of a VM except its provenance', () => {
    const given = [
      preset('p', title('a', when('object.metadata.annotations == {"a": "b"}'))),
      preset('q', { domain: { vcpu: { value: 1 } } }),
    ]
    expect(titleOf(given, {}, { a: 'b', 'virtset.io/completed-by': '{}' }).domain).toEqual({
      title: 'a',
      vcpu: { value: 1 },
    })
  })

  test('a cause quotes the condition that cannot be evaluated', () => {
    const given = preset('p', title('a', { strength: 'Enforce', ...when('true', 'object.gone.deeper') }))
    expect(injectSmall(vmWith({}), [given]).causes.map(({ suggestion }) => suggestion)).toEqual([
      'see object.gone.deeper',
    ])
  })

  test('a Default preset whose condition fails is left out with a warning', () => {
    expect(titleOf([preset('p', title('a', when('object.gone.deeper')))])).toEqual({
      domain: {},
      causes: [],
      warnings: ['preset "team/p" left out: condition "c0" cannot be evaluated: No such key: gone'],
    })
  })

  test('an Enforce preset whose condition fails refuses the VM', () => {
    expect(titleOf([preset('p', title('a', { strength: 'Enforce', ...when('object.gone.deeper') }))])).toEqual({
      domain: {},
      causes: ['preset "team/p" has strength Enforce, but its condition "c0" cannot be evaluated: No such key: gone'],
      warnings: [],
    })
  })

  test('see the VM as its user sent it: a preset does not match what another injects', () => {
    const labels = preset('labels', { metadata: { labels: { size: 'small' } } })
    const bySelector = preset('by-selector', { selector: { matchLabels: { size: 'small' } }, ...title('a') })
    const byCondition = preset('by-condition', title('b', when('has(object.metadata.labels)')))
    expect(titleOf([labels, bySelector, byCondition])).toEqual({ domain: {}, causes: [], warnings: [] })
  })
})

describe('modes', () => {
  test('Warn reports and records changes, Audit only records them, and neither makes them', () => {
    const { vm, warnings, audit, participants } = injectSmall(vmWith({ title: 'u' }), [
      preset('w', title('w', { mode: 'Warn', strength: 'Enforce' })),
      preset('idle', title('w', { mode: 'Warn' })),
      preset('a', { mode: 'Audit', domain: { type: 'kvm', vcpu: { value: 1 } } }),
    ])
    expect(vm).toEqual(vmWith({ title: 'u' }))
    expect(warnings).toEqual(['preset "team/w" (mode Warn) would change spec.domain.title'])
    expect(audit.map(({ preset: { id }, fields }) => [id, fields])).toEqual([
      ['team/w', ['spec.domain.title']],
      ['team/a', ['spec.domain.type', 'spec.domain.vcpu.value']],
      ['team/idle', []],
    ])
    expect(participants).toEqual([])
  })

  test('a preset of the namespace does not match by the label of another', () => {
    const label = preset('l', { metadata: { labels: { tier: 'gold' } } })
    const gold = { selector: { matchLabels: { tier: 'gold' } }, strength: 'Enforce' }
    const { vm } = injectSmall(vmWith({}), [label, preset('n', { ...gold, domain: { title: 'n' } })])
    expect(vm.spec.domain).toEqual({})
    const late = injectSmall(vmWith({}), [
      label,
      clusterPreset('c', { ...gold, domain: { title: 'c' } }),
      preset('n', { ...gold, domain: { title: 'n' } }),
    ])
    expect(late.vm.spec.domain).toEqual({ title: 'c' })
  })

  test('a trial changes nothing that a stronger preset sets', () => {
    const { audit } = injectSmall(vmWith({}), [
      preset('strong', { priority: 1, domain: { title: 'a' } }),
      preset('weak', { mode: 'Audit', domain: { title: 'b', vcpu: { value: 1 } } }),
    ])
    expect(audit.map(({ fields }) => fields)).toEqual([['spec.domain.vcpu.value']])
  })

  test('what a trial would change includes what it would remove, and what would be in conflict', () => {
    const { audit, warnings } = injectSmall(vmWith({ title: 'u', type: 'kvm' }), [
      preset('e', { strength: 'Enforce', domain: { title: 'e' } }),
      preset('r', { mode: 'Audit', strength: 'Enforce', priority: 1, remove: ['domain.type', 'domain.title'] }),
      preset('c', { mode: 'Audit', strength: 'Enforce', domain: { title: 'c' } }),
      preset('none', { mode: 'Warn', domain: { title: 'w' } }),
    ])
    expect(audit.map(({ preset: { id }, fields }) => [id, fields])).toEqual([
      ['team/r', ['spec.domain.title', 'spec.domain.type']],
      ['team/c', ['spec.domain.title']],
      ['team/none', []],
    ])
    expect(warnings).toEqual(['preset "team/e" changed spec.domain.title, which was "u"'])
  })

  test('a preset in mode Warn whose condition fails does not refuse the VM', () => {
    const given = preset('p', title('a', { mode: 'Warn', strength: 'Enforce', ...when('object.gone.deeper') }))
    expect(titleOf([given]).causes).toEqual([])
  })
})

describe('exclusive groups', () => {
  const sized = (name: string, others = {}) => preset(name, { exclusiveGroup: 'size', ...others })
  test('let at most one member match, across layers and priorities', () => {
    const presets = [sized('small'), sized('large', { priority: 9 }), clusterPreset('huge', { exclusiveGroup: 'size' })]
    expect(titleOf(presets).causes).toEqual([
      'select 3 presets of the exclusive group "size", of which at most one may match: huge, team/large, team/small',
    ])
  })

  test.each<[string, CompiledPreset]>([
    ['another group', preset('b', { exclusiveGroup: 'network' })],
    ['no group', preset('b', {})],
    ['mode Audit', sized('b', { mode: 'Audit' })],
    ['a condition that is false', sized('b', when('false'))],
    ['a selector that does not match', sized('b', { selector: { matchLabels: { a: 'b' } } })],
  ])('do not count %s', (_, other) => {
    expect(titleOf([sized('a'), other]).causes).toEqual([])
  })

  test('do not count presets that the user excluded', () => {
    const annotations = { 'virtset.io/exclude-presets': 'small' }
    expect(titleOf([sized('small'), sized('large')], {}, annotations).causes).toEqual([])
  })
})

describe('the annotation that excludes presets', () => {
  const presets = [
    preset('default', title('d')),
    preset('enforced', { strength: 'Enforce', domain: { type: 'kvm' } }),
    clusterPreset('site', { domain: { vcpu: { value: 1 } } }),
  ]
  const applies = (id: string) =>
    `virtset.io/exclude-presets: preset "${id}" applies: to exclude it requires the verb "exempt" on it`
  const all = { title: 'd', type: 'kvm', vcpu: { value: 1 } }
  test.each<[string, readonly string[], unknown, readonly string[]]>([
    ['', [], all, []],
    [' default , ', [], { type: 'kvm', vcpu: { value: 1 } }, []],
    ['team/default', [], { type: 'kvm', vcpu: { value: 1 } }, []],
    ['*', [], { type: 'kvm', vcpu: { value: 1 } }, [applies('site'), applies('team/enforced')]],
    ['enforced,site', [], all, [applies('site'), applies('team/enforced')]],
    ['enforced,site', ['team/enforced', 'site'], { title: 'd' }, []],
    ['*', ['site'], { type: 'kvm' }, [applies('team/enforced')]],
    ['defualt', [], all, ['virtset.io/exclude-presets: no preset "defualt" selects this VM']],
  ])('%j, exempt from %j', (annotation, exempt, domain, warnings) => {
    const injected = titleOf(presets, { exempt: new Set(exempt) }, { 'virtset.io/exclude-presets': annotation })
    expect(injected.domain).toEqual(domain)
    expect(injected.warnings).toEqual(warnings)
  })

  test('requires authorization only for Enforce and cluster presets', () => {
    expect(exemptionsToAuthorize({ 'virtset.io/exclude-presets': '*' }, presets)).toEqual(['site', 'team/enforced'])
    expect(exemptionsToAuthorize({ 'virtset.io/exclude-presets': 'default' }, presets)).toEqual([])
    expect(exemptionsToAuthorize(undefined, presets)).toEqual([])
  })
})

test('a quarantined preset that selects the VM is reported in a warning and left out', () => {
  const broken = (labels: { [key: string]: string }, namespace = 'team') => ({
    id: `${namespace}/broken`,
    namespace,
    causes: [],
    namespaceSelector: undefined,
    size: 2,
    selector: {
      requirements: Object.entries(labels).map(([key, value]) => ({
        key,
        oneOf: new Set([value]),
        presence: 'must' as const,
      })),
    },
  })
  const quarantined = [broken({}), broken({ size: 'large' }), broken({}, 'other')]
  expect(injectSmall(vmWith({}), [], { quarantined }).warnings).toEqual([
    'preset "team/broken" is broken and left out; see its status',
  ])
})
