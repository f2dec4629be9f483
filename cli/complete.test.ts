import { readFileSync, readdirSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'

const small = preset('small', '{selector: {matchLabels: {size: small}}, domain: {vcpu: {value: 2}}}')

describe('complete', () => {
  test('prints the VM with presets and defaults, the user first', async () => {
    const at = files({ 'vm.yaml': vm('web', '', '{size: small}'), 'presets/small.yaml': small })
    const { code, out, err } = await runVm(['complete', at('vm.yaml'), '--presets', at('presets')])
    expect([code, err]).toEqual([0, ''])
    const { metadata, spec } = parse(out)
    expect(Object.keys(spec.domain).slice(0, 3)).toEqual(['type', 'memory', 'os'])
    expect(spec.domain.memory).toEqual({ unit: 'MiB', value: 64 })
    expect(spec.domain.vcpu).toEqual({ value: 2, placement: 'static' })
    expect(metadata).toMatchObject({ name: 'web', namespace: 'default', finalizers: ['virtset.io/launcher-pod'] })
  })

  test.each([
    [
      'of the domain is refused, as by admission',
      vm('web', '    iothreads: 9007199254740993\n'),
      [1, /spec\.domain\.iothreads: .* is too large to be exact as a number: write it as a string/],
    ],
    [
      'elsewhere is refused too',
      vm('web').replace(
        'spec:',
        'spec:\n  tolerations: [{key: a, effect: NoExecute, tolerationSeconds: 9007199254740993}]',
      ),
      [1, /spec\.tolerations\[0\]\.tolerationSeconds: .* must be at most 9007199254740991/],
    ],
  ] as const)('an integer of 64 bits %s', async (_, text, [code, err]) => {
    const at = files({ 'vm.yaml': text })
    const done = await runVm(['complete', at('vm.yaml'), '--presets', at('')])
    expect([done.code, done.out]).toEqual([code, ''])
    expect(done.err).toMatch(err)
  })

  test('shows the origin of every line of the spec', async () => {
    const at = files({ 'vm.yaml': vm('web', '', '{size: small}'), 'small.yaml': small })
    const { out } = await runVm(['complete', at('vm.yaml'), '--presets', at('small.yaml'), '--provenance'])
    expect(out).toMatch(/^ {6}value: 64 # user$/m)
    expect(out).toMatch(/^ {6}value: 2 # preset default\/small@[0-9a-f]{16}$/m)
    expect(out).toMatch(/^ {6}placement: static # default vcpu-placement$/m)
    const spec = out.slice(out.indexOf('\nspec:') + 1)
    expect(spec.split('\n').filter((line) => line !== '' && !line.includes(' # '))).toEqual([])
  })

  test('writes no file outside the directory, regardless of the name of an object', async () => {
    const at = files({ 'all.yaml': `${vm('a')}---\n${vm('x/../../outside')}` })
    await runVm(['complete', at('all.yaml'), '--no-validate', '--out-dir', at('out'), '-o', 'json'])
    expect(readdirSync(at('')).toSorted()).toEqual(['all.yaml', 'out'])
    expect(readdirSync(at('out'))).toContain('all-x%2F..%2F..%2Foutside.json')
  })

  test('writes no file of one input over that of another', async () => {
    const at = files({ 'b.yaml': vm('b', '    vcpuu: 1\n'), 'b.causes.yaml': vm('c') })
    const names = [at('b.yaml'), at('b.causes.yaml')]
    const { code, err } = await runVm(['complete', ...names, '--no-validate', '--out-dir', at('out'), '-o', 'json'])
    expect([code, err.split('\n').at(-2)]).toEqual([
      2,
      `error: ${at('out/b.causes.json')}: another input has written this file; rename one of the two`,
    ])
    expect(JSON.parse(readFileSync(at('out/b.causes.json'), 'utf8'))).toMatchObject([{ field: 'spec.domain.vcpuu' }])
  })

  test('continues after refused and unreadable inputs, and writes causes, warnings and provenance', async () => {
    const at = files({
      'a.yaml': vm('a', '', '{size: small}'),
      'b.yaml': vm('b', '    vcpuu: 1\n'),
      'c.yaml': 'a: [',
      'd.yaml': vm('d'),
      'small.yaml': preset(
        'small',
        '{strength: Enforce, selector: {matchLabels: {size: small}}, domain: {memory: {unit: MiB, value: 128}}}',
      ),
    })
    const names = ['a', 'b', 'c', 'd'].map((name) => at(`${name}.yaml`))
    const { code, err } = await runVm([
      'complete',
      ...names,
      '--presets',
      at('small.yaml'),
      '--out-dir',
      at('out'),
      '--provenance',
      '-o',
      'json',
    ])
    expect(code).toBe(2)
    expect(err.split('\n')).toEqual([
      'Warning: preset "default/small" changed spec.domain.memory, which was {"unit":"MiB","value":64}',
      'The VirtualMachine "b" is invalid: spec.domain.vcpuu: Invalid value: 1: there is no such field; did you mean "vcpu"?',
      expect.stringMatching(/^error: .*c\.yaml:1:5: Flow /),
      '',
    ])
    expect(readdirSync(at('out')).toSorted()).toEqual([
      'a.json',
      'a.provenance.json',
      'a.warnings.json',
      'b.causes.json',
      'd.json',
      'd.provenance.json',
    ])
    const json = (name: string): unknown => JSON.parse(readFileSync(at(`out/${name}`), 'utf8'))
    expect(json('a.warnings.json')).toHaveLength(1)
    expect(json('b.causes.json')).toMatchObject([{ field: 'spec.domain.vcpuu', reason: 'FieldValueInvalid' }])
    expect(json('a.provenance.json')).toMatchObject({
      'spec.domain.type': { user: true },
      'spec.domain.memory.value': { preset: 'default/small', revision: expect.any(String) },
      'spec.domain.vcpu.placement': { default: 'vcpu-placement' },
    })
  })

  test.each<[string, string, number, RegExp]>([
    ['invalid YAML', 'a:\n  - b\n c: d', 2, /vm\.yaml:3:1: /],
    [
      'an unknown kind',
      'kind: VirtualMachin\nmetadata: {name: x}',
      2,
      /unknown kind "VirtualMachin" of "x"; did you mean VirtualMachine\?/,
    ],
    [
      'a Pod',
      'apiVersion: v1\nkind: Pod\nmetadata: {name: x}',
      2,
      /Pod of v1 needs the schema of its kind: no cluster; without a cluster: --schema/,
    ],
    [
      "KubeVirt's VM",
      'apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: x}',
      2,
      /VirtualMachine of kubevirt.io\/v1 needs the schema of its kind/,
    ],
    ['an empty file', '', 2, /vm\.yaml: is empty/],
    ['a list', '- 1', 2, /is not a Kubernetes object/],
    ['only presets', small, 2, /nothing to complete: the input has only presets/],
    ['a reserved label', vm('x', '', '{virtset.io/vm-uid: a}'), 1, /metadata.labels\[virtset.io\/vm-uid\]: Forbidden/],
    ["XML that is not libvirt's", '<domain><x/></domain>', 1, /The VirtualMachine "vm" is invalid: /],
  ])('explains what is wrong with %s', async (_, text, code, words) => {
    const at = files({ 'vm.yaml': text, 'small.yaml': small })
    const result = await runVm(['complete', at('vm.yaml'), '--presets', at('small.yaml')])
    expect([result.code, result.out]).toEqual([code, ''])
    expect(result.err).toMatch(words)
  })

  test.each([
    ['a missing file', ['complete', '/nowhere/x.yaml', '--no-validate'], /\/nowhere\/x.yaml: no such file/],
    ['a directory without manifests', ['complete', import.meta.dirname, '--no-validate'], /has no manifest/],
    ['malformed labels', ['complete', 'x', '--presets', 'y', '--namespace-labels', 'a'], /"a" is not KEY=VALUE/],
    ['labels with a cluster', ['complete', 'x', '--namespace-labels', 'a=b'], /--namespace-labels requires --presets/],
    ['no cluster', ['complete', 'x'], /no cluster; without a cluster: --presets FILE\|DIR or --no-presets/],
  ])('%s is an error with exit code 2', async (_, words, message) => {
    const { code, out, err } = await runVm(words)
    expect([code, out]).toEqual([2, ''])
    expect(err).toMatch(message)
  })

  test('--no-presets needs no cluster, and applies the rules', async () => {
    const at = files({ 'good.yaml': vm('x'), 'bad.yaml': vm('y', '    devices: {emulator: /bin/sh}\n') })
    const good = await runVm(['complete', at('good.yaml'), '--no-presets'])
    expect([good.code, good.out]).toEqual([0, expect.stringContaining('kind: VirtualMachine')])
    const bad = await runVm(['complete', at('bad.yaml'), '--no-presets'])
    expect([bad.code, bad.err]).toEqual([1, expect.stringContaining('reaches the host')])
  })

  test('a config is completed by its template, and its causes point there', async () => {
    const config = (domain: string) => `apiVersion: virtset.io/v1alpha1
kind: VirtualMachineConfig
metadata: {name: web}
spec: {template: {metadata: {labels: {size: small}}, spec: {domain: ${domain}}}}`
    const at = files({
      'good.yaml': config('{type: qemu, memory: {value: 65536}, os: {type: {os: hvm}}}'),
      'bad.yaml': config('{type: qemu, memory: {value: 65536}, os: {type: {os: hvm}}, devices: {emulator: /bin/sh}}'),
      'small.yaml': small,
    })
    const good = parse((await runVm(['complete', at('good.yaml'), '--presets', at('small.yaml')])).out)
    expect([good.kind, good.metadata.name, good.spec.domain.vcpu.value]).toEqual(['VirtualMachine', 'web', 2])
    const { err } = await runVm(['complete', at('bad.yaml'), '--presets', at('small.yaml')])
    expect(err).toContain('The VirtualMachineConfig "web" is invalid: spec.template.spec.domain.devices.emulator: ')
  })

  test('reads standard input, lists, and YAML as kubectl does', async () => {
    const input = JSON.stringify({ kind: 'List', items: [parse(vm('a')), parse(vm('b'))] })
    const { out } = await runVm(['complete', '-', '--no-validate'], { input })
    expect(out.split('---\n').map((text) => parse(text).metadata.name)).toEqual(['a', 'b'])
    const at = files({ 'vm.yaml': vm('c', '    features: {acpi: {}, hyperv: {relaxed: {state: yes}}}\n') })
    const one = parse((await runVm(['complete', at('vm.yaml'), '--no-validate'])).out)
    expect(one.spec.domain.features.hyperv.relaxed).toEqual({ state: true })
  })

  test('VMs have different identities, and the same VM always has the same', async () => {
    const at = files({ 'vms.yaml': `${vm('a')}---\n${vm('b')}` })
    const uuids = async () =>
      [...(await runVm(['complete', at('vms.yaml'), '--no-validate'])).out.matchAll(/uuid: (.*)/g)].map(
        ([, uuid]) => uuid,
      )
    const [first = '', second = ''] = await uuids()
    expect(first).not.toBe(second)
    expect(await uuids()).toEqual([first, second])
  })

  test('presets match the given labels of the namespace and its name', async () => {
    const wide = preset(
      'wide',
      '{selector: {}, namespaceSelector: {matchLabels: {team: a, kubernetes.io/metadata.name: ns1}}, domain: {title: hello}}',
      'ClusterVirtualMachinePreset',
    )
    const at = files({ 'vm.yaml': vm('web'), 'wide.yaml': wide })
    const words = ['complete', at('vm.yaml'), '--presets', at('wide.yaml'), '-n', 'ns1', '-o', 'json']
    expect((await runVm([...words, '--namespace-labels', 'team=a'])).out).toContain('"title": "hello"')
    expect((await runVm(words)).out).not.toContain('"title"')
  })

  test('a broken preset causes a warning and is not applied; --strict counts it', async () => {
    const at = files({ 'vm.yaml': vm('web'), 'p.yaml': preset('bad', '{selector: {}, domain: {vcpuu: 1}}') })
    const words = ['complete', at('vm.yaml'), '--presets', at('p.yaml')]
    const { code, err } = await runVm(words)
    expect(code).toBe(0)
    expect(err).toContain('Warning: preset "default/bad" is broken and not applied: spec.domain.vcpuu: ')
    expect((await runVm([...words, '--strict', '-q'])).code).toBe(3)
  })

  test('Domain XML has the spelling of libvirt', async () => {
    const xml =
      '<domain type="qemu"><name>Web VM</name><memory unit="MiB">64</memory><os><type>hvm</type></os></domain>'
    const at = files({ 'vm.xml': xml })
    const { code, out } = await runVm(['complete', at('vm.xml'), '-o', 'xml', '--no-validate'])
    expect(code).toBe(0)
    expect(out).toContain("<memory unit='KiB'>65536</memory>".replaceAll("'", '"'))
    expect((await runVm(['complete', at('vm.xml'), '--no-validate', '-o', 'json'])).out).toContain('"name": "web-vm"')
  })
})
