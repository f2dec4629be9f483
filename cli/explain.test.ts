import { describe, expect, test } from 'vitest'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'

const given = {
  'vm.yaml': vm('web', '    vcpu: {value: 4}\n', '{size: small, tier: a}'),
  'p/enforce.yaml': preset(
    'enforce',
    '{strength: Enforce, priority: 2, selector: {matchLabels: {size: small}}, domain: {vcpu: {value: 2}}}',
  ),
  'p/weak.yaml': preset(
    'weak',
    '{strength: Enforce, priority: 1, selector: {matchLabels: {tier: a}}, domain: {vcpu: {value: 1}, title: hello}}',
  ),
  'p/other.yaml': preset('other', '{selector: {matchLabels: {size: large}}, domain: {title: x}}'),
  'p/condition.yaml': preset(
    'condition',
    '{selector: {matchLabels: {size: small}}, matchConditions: [{name: named-db, expression: \'object.metadata.name == "db"\'}], domain: {title: x}}',
  ),
  'p/warn.yaml': preset('warn', '{mode: Warn, selector: {matchLabels: {size: small}}, domain: {description: x}}'),
  'p/broken.yaml': preset('broken', '{selector: {}, domain: {vcpuu: 1}}'),
}

const explained = async (...words: string[]) => {
  const at = files(given)
  return runVm(['explain', at('vm.yaml'), ...words, '--presets', at('p')])
}

describe('explain', () => {
  test('shows for each preset in scope why it was applied or not', async () => {
    const { out } = await explained('-o', 'json')
    const { presets } = JSON.parse(out)
    expect(presets).toEqual([
      { preset: 'default/enforce', layer: 'namespace Enforce', priority: 2, outcome: 'applied' },
      { preset: 'default/weak', layer: 'namespace Enforce', priority: 1, outcome: 'applied' },
      {
        preset: 'default/condition',
        layer: 'namespace Default',
        priority: 0,
        outcome: 'no match',
        why: 'condition "named-db" is false',
      },
      {
        preset: 'default/other',
        layer: 'namespace Default',
        priority: 0,
        outcome: 'no match',
        why: 'selector size=large, and the VM has size=small',
      },
      {
        preset: 'default/warn',
        layer: 'namespace Default',
        priority: 0,
        outcome: 'warned',
        why: 'mode Warn changes nothing',
      },
      {
        preset: 'default/broken',
        layer: '',
        priority: 0,
        outcome: 'broken',
        why: expect.stringContaining('spec.domain.vcpuu'),
      },
    ])
  })

  test('conditions see the request that would create the VM', async () => {
    const asks = (name: string, expression: string) =>
      preset(name, `{selector: {}, matchConditions: [{name: asks, expression: '${expression}'}], domain: {title: x}}`)
    const at = files({
      'vm.yaml': vm('web'),
      'p.yaml': [
        asks('a', 'request.operation == "CREATE" && request.namespace == "default" && request.name == "web"'),
        asks('b', 'request.operation == "UPDATE"'),
        asks('c', 'request.userInfo.username == "anna"'),
      ].join('---\n'),
    })
    const { out } = await runVm(['explain', at('vm.yaml'), '--presets', at('p.yaml'), '-o', 'json'])
    const outcomes = JSON.parse(out).presets.map((one: { outcome: string; why?: string }) => [one.outcome, one.why])
    expect(outcomes).toEqual([
      ['applied', undefined],
      ['no match', 'condition "asks" is false'],
      ['undecided', 'condition "asks": No such key: userInfo'],
    ])
  })

  test('shows who set a field, and why that origin won', async () => {
    const { code, out } = await explained('spec.domain.vcpu', '-o', 'json')
    expect([code, JSON.parse(out).fields]).toEqual([
      0,
      [
        {
          path: 'spec.domain.vcpu.value',
          value: 2,
          preset: 'default/enforce',
          revision: expect.any(String),
          overridden: expect.arrayContaining([
            { user: true, value: 4, why: 'enforced presets win over the user' },
            { preset: 'default/weak', revision: expect.any(String), value: 1, why: 'priority 2 wins over 1' },
          ]),
        },
        { path: 'spec.domain.vcpu.placement', value: 'static', default: 'vcpu-placement' },
      ],
    ])
  })

  test('is a table for people', async () => {
    const { out } = await explained('spec.domain.title')
    expect(out).toContain('VirtualMachine default/web\n\nPresets, strongest first\n  default/enforce')
    expect(out).toMatch(/\n {2}spec\.domain\.title +"hello" +preset default\/weak@[0-9a-f]{16}\n/)
  })

  test.each([
    [['spec.nothing'], 1, /^error: the VM has no field spec\.nothing$/m],
    [['-n', 'x'], 0, /broken/],
  ])('%j', async (words, code, message) => {
    const result = await explained(...words)
    expect(result.code).toBe(code)
    expect(result.err).toMatch(message)
  })

  test('every VM of a file is explained', async () => {
    const at = files({ ...given, 'vms.yaml': `${vm('a')}---\n${vm('b', '    vcpuu: 1\n')}---\n${vm('c')}` })
    const words = ['explain', at('vms.yaml'), 'spec.domain.onCrash', '--presets', at('p/other.yaml')]
    const { code, out, err } = await runVm(words)
    expect([code, out.match(/^VirtualMachine .*$/gm)]).toEqual([
      1,
      ['VirtualMachine default/a', 'VirtualMachine default/c'],
    ])
    expect(err).toContain('The VirtualMachine "b" is invalid')
  })

  test('a VM that is not a file requires a cluster', async () => {
    const at = files(given)
    const result = await runVm(['explain', 'web', '--presets', at('p/enforce.yaml')])
    expect([result.code, result.err]).toEqual([2, 'error: web: no such file; a VM of this name requires a cluster\n'])
  })

  test('a refused VM is shown with the presets in scope', async () => {
    const at = files({ ...given, 'vm.yaml': vm('web', '    vcpuu: 1\n') })
    const result = await runVm(['explain', at('vm.yaml'), '--presets', at('p/enforce.yaml')])
    expect([result.code, result.err]).toEqual([
      1,
      expect.stringContaining('The VirtualMachine "web" is invalid: spec.domain.vcpuu'),
    ])
  })
})
