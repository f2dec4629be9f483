import { writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'
import { gadgetCrd } from '../test/presets/objects.ts'

const size = (value: number, more = '') =>
  `{selector: {matchLabels: {size: small}}${more}, domain: {vcpu: {value: ${value}}}}`

const given = {
  'now/a.yaml': vm('a', '', '{size: small}'),
  'now/b.yaml': vm('b'),
  'now/c.yaml': vm('c', '', '{size: small}').replace('name: c,', 'name: c, namespace: other,'),
  'now/small.yaml': preset('small', size(1)),
}

describe('the impact of presets', () => {
  test.each<[string, string, number, string]>([
    ['that are unchanged', preset('small', size(1)), 0, '2 namespaces: 0 of 3 VMs would differ\n'],
    [
      'that select nothing',
      preset('none', '{selector: {matchLabels: {a: b}}, domain: {title: x}}'),
      0,
      '2 namespaces: 0 of 3 VMs would differ\n',
    ],
    [
      'that change a value',
      preset('small', size(2)),
      1,
      `default: 1 of 2 VMs would differ
  a
    ~ spec.domain.vcpu.value: 1 → 2
2 namespaces: 1 of 3 VMs would differ
`,
    ],
    [
      'of the whole cluster',
      preset('title', '{selector: {matchLabels: {size: small}}, domain: {title: x}}', 'ClusterVirtualMachinePreset'),
      1,
      `default: 1 of 2 VMs would differ
  a
    + spec.domain.title: "x"
other: 1 of 1 VM would differ
  c
    + spec.domain.title: "x"
2 namespaces: 2 of 3 VMs would differ
`,
    ],
  ])('%s', async (_, text, code, out) => {
    const at = files({ ...given, 'new.yaml': text })
    expect(await runVm(['impact', '--presets', at('new.yaml'), '--vms', at('now')])).toEqual({ code, out, err: '' })
  })

  test('a new conflict is a new refusal', async () => {
    const at = files({ ...given, 'new.yaml': preset('other', size(4)) })
    const { code, out } = await runVm(['impact', '--presets', at('new.yaml'), '--vms', at('now')])
    expect(code).toBe(1)
    expect(out).toContain('  a: refused\n    * spec.domain.vcpu.value: Invalid value')
    expect(out).toContain('2 namespaces: 0 of 3 VMs would differ, 1 newly refused (1 by a conflict)\n')
  })

  test('a conflict that disappears is reported', async () => {
    const at = files({
      ...given,
      'now/other.yaml': preset('other', size(4)),
      'new.yaml': preset('other', size(4, ', priority: 1')),
    })
    const { out } = await runVm(['impact', '--presets', at('new.yaml'), '--vms', at('now'), '-o', 'json'])
    expect(JSON.parse(out).total).toEqual({ vms: 3, different: 0, refused: 0, conflicts: 0, freed: 1 })
  })

  test('completed VMs are completed again from what their users wrote', async () => {
    const at = files({ ...given, 'new.yaml': preset('small', size(2)) })
    const completed = await runVm(['complete', at('now/a.yaml'), '--presets', at('now'), '-o', 'json'])
    const dump = files({ 'a.json': completed.out, 'small.yaml': given['now/small.yaml'] })
    const { out } = await runVm(['impact', '--presets', at('new.yaml'), '--vms', dump()])
    expect(out).toContain('  a\n    ~ spec.domain.vcpu.value: 1 → 2\n')
  })

  test('only one namespace, and few of its VMs', async () => {
    const many = Object.fromEntries(
      Array.from({ length: 5 }, (_, index) => [`now/m${index}.yaml`, vm(`m${index}`, '', '{size: small}')]),
    )
    const at = files({ ...given, ...many, 'new.yaml': preset('small', size(2)) })
    const { out } = await runVm([
      'impact',
      '--presets',
      at('new.yaml'),
      '--vms',
      at('now'),
      '-n',
      'default',
      '--limit',
      '1',
    ])
    expect(out).toMatch(/^default: 6 of 7 VMs would differ\n {2}a\n {4}.*\n {2}and 5 more\n1 namespace: /)
  })

  test('a preset that would be refused is reported', async () => {
    const at = files({ ...given, 'new.yaml': preset('bad', '{selector: {}, domain: {vcpuu: 1}}') })
    const { code, err } = await runVm(['impact', '--presets', at('new.yaml'), '--vms', at('now')])
    expect([code, err]).toEqual([
      1,
      'The preset "default/bad" is invalid: spec.domain.vcpuu: Invalid value: 1: there is no such field; did you mean "vcpu"?\n',
    ])
  })
})

describe('the impact of presets for another kind', () => {
  const gadget = (name: string, spec: string, metadata = '') =>
    `apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: ${name}, labels: {size: small}${metadata}}\nspec: ${spec}\n`
  const sized = (value: number, more = '') =>
    preset(
      'small',
      `{target: {apiVersion: example.com/v1, kind: Gadget}, selector: {matchLabels: {size: small}}${more}, object: {spec: {size: ${value}}}}`,
      'ObjectPreset',
    )
  const at = () =>
    files({
      'now/a.yaml': gadget('a', '{mode: Fast}'),
      'now/b.yaml': gadget('b', '{size: 9}'),
      'now/small.yaml': sized(1),
      'crd/gadget.yaml': JSON.stringify(gadgetCrd),
      'new.yaml': sized(2),
      'forced.yaml': sized(3, ', strength: Enforce'),
      'broken.yaml': sized(20),
    })
  const impactOf = (folder: (name?: string) => string, name: string, ...flags: readonly string[]) =>
    runVm(['impact', '--presets', folder(name), '--vms', folder('now'), '--schema', folder('crd'), ...flags])

  test('compares what the users wrote, with the current and the new presets', async () => {
    expect(await impactOf(at(), 'new.yaml')).toEqual({
      code: 1,
      out: `default: 1 of 2 objects would differ
  Gadget a
    ~ spec.size: 1 → 2
1 namespace: 1 of 2 objects would differ
`,
      err: '',
    })
    // Objects without a namespace are in that of -n, as presets are.
    expect((await impactOf(at(), 'new.yaml', '-n', 'team')).out).toContain('team: 1 of 2 objects would differ\n')
    const { out } = await impactOf(at(), 'forced.yaml', '-o', 'json')
    expect(JSON.parse(out).total).toEqual({ objects: 2, different: 2, refused: 0, conflicts: 0, freed: 0 })
    expect(await impactOf(at(), 'broken.yaml')).toMatchObject({
      code: 1,
      err: expect.stringContaining('spec.object.spec.size: Invalid value: 20'),
    })
  })

  test('objects in no namespace are those of the cluster', async () => {
    const folder = at()
    const crd = JSON.stringify({ ...gadgetCrd, spec: { ...gadgetCrd.spec, scope: 'Cluster' } })
    writeFileSync(folder('crd/gadget.yaml'), crd)
    const ofCluster = (value: number) => sized(value).replace('ObjectPreset', 'ClusterObjectPreset')
    writeFileSync(folder('new.yaml'), ofCluster(2))
    writeFileSync(folder('now/small.yaml'), ofCluster(1))
    expect((await impactOf(folder, 'new.yaml', '-n', 'team')).out).toBe(`the cluster: 1 of 2 objects would differ
  Gadget a
    ~ spec.size: 1 → 2
the cluster: 1 of 2 objects would differ
`)
  })

  test("what a preset has set before, and an item whose key it has set, are not the user's", async () => {
    const folder = at()
    const provenance = JSON.stringify({
      v: 1,
      by: [['default', 'small', '0123456789abcdef']],
      at: { spec: { size: 0, parts: { 0: { name: 0 } } } },
    })
    const annotation = `, annotations: {virtset.io/completed-by: '${provenance}'}`
    writeFileSync(folder('now/a.yaml'), gadget('a', '{size: 1, parts: [{name: p, weight: 5}], mode: Fast}', annotation))
    expect((await impactOf(folder, 'new.yaml')).out).toContain('    ~ spec.size: 1 → 2\n1 namespace')
  })
})
