import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'
import { gadgetCrd } from '../test/presets/objects.ts'

const gadget = (name: string, spec: string, labels = '{}') =>
  `apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: ${name}, labels: ${labels}}\nspec: ${spec}\n`

const forGadgets = (name: string, spec: string, kind = 'ObjectPreset') =>
  preset(name, `{target: {apiVersion: example.com/v1, kind: Gadget}, ${spec}}`, kind)

const crd = JSON.stringify(gadgetCrd)

/** Completes `g.yaml` with `presets.yaml` and the CRD. */
function complete(given: { readonly object: string; readonly presets: string }, ...flags: string[]) {
  const at = files({ 'g.yaml': given.object, 'presets.yaml': given.presets, 'crd.yaml': crd })
  return runVm(['complete', at('g.yaml'), '--presets', at('presets.yaml'), '--schema', at('crd.yaml'), ...flags])
}

describe('complete, with the schema of a kind', () => {
  test('merges presets into objects and shows who set what', async () => {
    const { code, out, err } = await complete(
      {
        object: gadget('g', '{mode: Fast, parts: [{name: a}]}', '{size: small}'),
        presets: [
          forGadgets('small', 'selector: {matchLabels: {size: small}}, object: {spec: {size: 2}}'),
          forGadgets('large', 'selector: {matchLabels: {size: large}}, object: {spec: {size: 9}}'),
          forGadgets(
            'site',
            "selector: {}, strength: Enforce, object: {spec: {mode: Safe, parts: [{name: '*', weight: 1}]}}",
            'ClusterObjectPreset',
          ),
        ].join('---\n'),
      },
      '--provenance',
    )
    expect([code, err]).toEqual([0, 'Warning: preset "site" changed spec.mode, which was "Fast"\n'])
    expect(parse(out)).toEqual({
      apiVersion: 'example.com/v1',
      kind: 'Gadget',
      metadata: { name: 'g', labels: { size: 'small' } },
      spec: { mode: 'Safe', parts: [{ name: 'a', weight: 1 }], size: 2 },
    })
    expect(out).toMatch(/^ {2}size: 2 # preset default\/small@[0-9a-f]{16}$/m)
    expect(out).toMatch(/^ {2}mode: Safe # preset site@[0-9a-f]{16}$/m)
  })

  test('prints no integer of 64 bits that it has rounded, which the API server keeps', async () => {
    const presets = forGadgets('p', 'selector: {}, object: {spec: {mode: Safe}}')
    const parts = (weight: string) => gadget('g', `{parts: [{name: a, weight: ${weight}}]}`)
    for (const flags of [[], ['-o', 'json']]) {
      expect(await complete({ object: parts('9007199254740993'), presets }, ...flags)).toEqual({
        code: 2,
        out: '',
        err: 'error: Gadget "g": spec.parts[0].weight is beyond 2^53. The API server keeps such an integer, but this command would round it\n',
      })
    }
    expect(await complete({ object: parts('9007199254740991'), presets })).toMatchObject({
      code: 0,
      out: expect.stringContaining('weight: 9007199254740991\n'),
    })
  })

  test('refuses an object on which presets disagree', async () => {
    const one = (name: string, size: number) => forGadgets(name, `selector: {}, object: {spec: {size: ${size}}}`)
    const { code, out, err } = await complete({
      object: gadget('g', '{}'),
      presets: `${one('a', 1)}---\n${one('b', 2)}`,
    })
    expect([code, out]).toEqual([1, ''])
    expect(err).toMatch(
      /^The Gadget "g" is invalid: spec.size: .* "default\/a" sets 1, "default\/b" sets 2; set the field in the Gadget/,
    )
  })

  test('leaves a broken preset out, with a warning', async () => {
    const { code, out, err } = await complete({
      object: gadget('g', '{size: 1}'),
      presets: forGadgets('typo', 'selector: {}, object: {spec: {sise: 2}}'),
    })
    expect([code, parse(out).spec]).toEqual([0, { size: 1 }])
    expect(err.split('\n')).toEqual([
      'Warning: preset "default/typo" is broken and not applied: spec.object.spec.sise: Invalid value: 2: there is no such field; did you mean "size"?',
      'Warning: preset "default/typo" is broken and left out; see its status',
      '',
    ])
  })

  test('evaluates conditions on the object, and completes VMs beside it', async () => {
    const { code, out } = await complete({
      object: `${gadget('g', '{size: 1}')}---\n${vm('web')}`,
      presets: [
        forGadgets(
          'c',
          'selector: {}, matchConditions: [{name: c, expression: "object.spec.size == 1 && request.kind.kind == \'Gadget\'"}], object: {spec: {mode: Safe}}',
        ),
        preset('v', '{selector: {}, domain: {title: t}}'),
      ].join('---\n'),
    })
    const [object, machine] = out.split('---\n').map((text) => parse(text))
    expect([code, object.spec, machine.spec.domain.title]).toEqual([0, { size: 1, mode: 'Safe' }, 't'])
  })

  test.each<[string, readonly string[], RegExp]>([
    ['XML', ['-o', 'xml'], /^error: .*g\.yaml: Gadget cannot be printed as XML: only VMs can\n$/],
    ['a file without a kind', ['--schema', 'package.json'], /^error: package\.json: is neither a CustomResource/],
  ])('refuses %s', async (_, flags, message) => {
    const { code, err } = await complete(
      { object: gadget('g', '{}'), presets: preset('v', '{selector: {}}') },
      ...flags,
    )
    expect([code, err.replaceAll(/^Warning: .*\n/gm, '')]).toEqual([2, expect.stringMatching(message)])
  })
})

describe('lint, with the schema of a kind', () => {
  const sized = (name: string, size: number, labels = '{size: small}') =>
    forGadgets(name, `selector: {matchLabels: ${labels}}, object: {spec: {size: ${size}}}`)

  test.each<[string, string, number, RegExp]>([
    ['a preset without faults', sized('a', 1), 0, /^$/],
    [
      'an unknown field',
      forGadgets('typo', 'selector: {matchLabels: {a: b}}, object: {spec: {sise: 2}}'),
      1,
      /The ObjectPreset "typo" is invalid: spec.object.spec.sise: .*; did you mean "size"\?/,
    ],
    [
      'a kind without a schema',
      sized('a', 1).replace('kind: Gadget', 'kind: Gadgets'),
      1,
      /spec.target: .*there is no schema of Gadgets of example.com\/v1; did you mean Gadget of/,
    ],
    [
      'a preset for all',
      forGadgets('all', 'selector: {}, object: {spec: {size: 2}}'),
      3,
      /^Warning: .*: preset "all": spec.selector: \{\} selects every object of its kind in its namespace\n$/,
    ],
    [
      'two that could disagree',
      `${sized('a', 1)}---\n${sized('b', 2, '{tier: web}')}`,
      3,
      /^Warning: .*: preset "default\/b" disagrees with preset "default\/a" on spec.size, e.g. on a Gadget with labels \{[^}]*size=small[^}]*\}\n$/,
    ],
    [
      'a VM preset of the same name',
      `${sized('a', 1)}---\n${preset('a', '{selector: {matchLabels: {a: b}}, domain: {title: t}}')}`,
      0,
      /^$/,
    ],
  ])('%s', async (_, presets, code, message) => {
    const at = files({ 'presets.yaml': presets, 'crd.yaml': crd })
    const result = await runVm(['lint', at('presets.yaml'), '--schema', at('crd.yaml'), '--strict'])
    expect([result.code, result.err]).toEqual([code, expect.stringMatching(message)])
  })
})

test('a kind without a schema is refused with the nearest one', async () => {
  const pod = 'apiVersion: example.com/v1\nkind: Gadgets\nmetadata: {name: g}\n'
  const { code, err } = await complete({ object: pod, presets: preset('v', '{selector: {}, domain: {title: t}}') })
  expect([code, err]).toEqual([
    2,
    'error: there is no schema of Gadgets of example.com/v1; did you mean Gadget of example.com/v1?\n',
  ])
})

test('explain shows who set each field, and why presets were applied or not', async () => {
  const one = (name: string, labels: string, size: number) =>
    forGadgets(name, `selector: {matchLabels: ${labels}}, object: {spec: {size: ${size}}}`)
  const at = files({
    'g.yaml': gadget('g', '{mode: Fast}', '{size: small}'),
    'presets.yaml': `${one('a', '{size: small}', 1)}---\n${one('b', '{size: large}', 2)}`,
    'crd.yaml': crd,
  })
  const flags = ['--presets', at('presets.yaml'), '--schema', at('crd.yaml')]
  const { code, out, err } = await runVm(['explain', at('g.yaml'), ...flags])
  expect([code, err, out.replaceAll(/@[0-9a-f]{16}/g, '@R')]).toEqual([
    0,
    '',
    `Gadget default/g

Presets, strongest first
  default/a  namespace Default     0  applied
  default/b  namespace Default     0  no match: selector size=large, and the Gadget has size=small

Fields
  metadata.labels.size  "small"       user
  spec.mode             "Fast"        user
  spec.size             1             preset default/a@R
`,
  ])
  expect(await runVm(['explain', at('g.yaml'), 'spec.port', ...flags])).toMatchObject({
    code: 1,
    err: 'error: the Gadget has no field spec.port\n',
  })
})
