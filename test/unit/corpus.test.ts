import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test } from 'vitest'
import { canonical } from '../../api/domain/canonical.ts'
import { completedByAnnotation } from '../../api/virtual-machine.ts'
import { apiVersion } from '../../api/object.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete as completeVm } from '../../completion/complete.ts'
import { decodeProvenance } from '../../completion/provenance.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compilePreset } from '../../presets/compile.ts'
import type { LostValue } from '../../presets/origins.ts'
import { complete, difference, parse, readCases } from '../corpus/corpus.ts'
import known from '../corpus/known-differences.json' with { type: 'json' }

const folder = process.env['LIBVIRT_CORPUS']
const cases = folder === undefined ? [] : readCases(folder)
const leftOut =
  folder === undefined
    ? ', left out: LIBVIRT_CORPUS is not set; test/corpus/corpus.ts describes how to build it from the source of libvirt'
    : ''

describe(`libvirt's own cases${leftOut}`, () => {
  test('completes domains as libvirt does, except for a list of known differences that must not grow', () => {
    const different = cases.filter(({ before, after }) => difference(before, after)).map(({ name }) => name)
    const expected = Object.keys(known).filter((name) => cases.some((one) => one.name === name))
    expect(different).toEqual(expected)
  })

  test('a domain completed by libvirt is complete', () => {
    const different = cases.filter(({ after }) => difference(after, after)).map(({ name }) => name)
    expect(different).toEqual([])
  })

  test.each(cases)(
    '$name: completing again adds nothing, and completion changes nothing that was written',
    ({ before }) => {
      const domain = parse(before)
      const untouched = structuredClone(domain)
      const once = complete(domain)
      expect(domain).toEqual(untouched)
      expect(changes(untouched, once, '')).toEqual([])
      expect(complete(once)).toEqual(once)
    },
  )

  test.each(cases)('$name: the canonical form of a complete domain is complete', ({ before }) => {
    const once = canonical(complete(parse(before)))
    expect(canonical(complete(once))).toEqual(once)
  })
})

describe(`the provenance of libvirt's own cases${leftOut}`, () => {
  /** Override some fields of each VM, so that the provenance has values to record. */
  const presets = createCandidates(
    [
      {
        strength: 'Enforce',
        domain: { title: 'ours', description: 'ours', onPoweroff: 'preserve', onReboot: 'preserve' },
      },
      {
        strength: 'Enforce',
        domain: { devices: { disks: [{ target: { dev: '*' }, driver: { cache: 'none', io: 'native' } }] } },
      },
    ].map((spec, index) => {
      const metadata = { name: `p${index}` }
      const compiled = compilePreset({ kind: 'ClusterVirtualMachinePreset', metadata, spec: { selector: {}, ...spec } })
      if ('quarantined' in compiled) throw new Error(JSON.stringify(compiled.quarantined.causes))
      return compiled.preset
    }),
  )

  test('fits completely, with what the user wrote', () => {
    const options = { presets, namespace: { name: 'default', labels: {} }, capabilities, entropy: { uid: 'u' } }
    const results = cases.map(({ name, before }) => {
      const vm = { metadata: { name: 'vm' }, spec: { domain: parse(before) } }
      const outcome = completeVm({ apiVersion, kind: 'VirtualMachine', ...vm }, { ...options, skipRules: true })
      if (outcome.outcome === 'refused') return { name, bytes: 0, left: 0, forgotten: ['refused'] }
      const text = outcome.vm.metadata.annotations?.[completedByAnnotation] ?? ''
      const decoded = decodeProvenance(text)
      const usersOf = (lost: readonly LostValue[] = []) => lost.find(({ origin }) => origin.by === 'user')?.value
      const forgotten = [...outcome.overridden].flatMap(([path, lost]) => {
        const users = usersOf(lost)
        const isShort = users !== undefined && JSON.stringify(users).length <= 128
        return isShort && !isDeepStrictEqual(usersOf(decoded?.overridden.get(path)), users) ? [path] : []
      })
      return { name, bytes: Buffer.byteLength(text), left: decoded?.left, forgotten }
    })
    const isFine = ({ bytes, left, forgotten }: (typeof results)[number]) =>
      bytes <= 32 * 1024 && left === 0 && forgotten.length === 0
    expect(results.filter((one) => !isFine(one))).toEqual([])
  })
})

/**
 * The paths at which `after` does not have what `before` has; lists can be longer, and an empty text can be replaced.
 */
const changes = (before: unknown, after: unknown, path: string): string[] => {
  if (before === '' || before === after) return []
  if (typeof before !== 'object' || before === null || typeof after !== 'object' || after === null) return [path]
  const later = new Map(Object.entries(after))
  return Object.entries(before).flatMap(([key, value]) => changes(value, later.get(key), `${path}.${key}`))
}
