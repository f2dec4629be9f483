import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied, testContext } from '../../test/applied.ts'
import type { Context } from './rule.ts'
import { drawMac, drawUuid, generationId, macAddress, name, uuid } from './identity.ts'

const first = 'a94b4335-6a14-8bc4-d6da-f7ea590b6816'
const last = 'a94b4335-6a14-8bc4-d6da-f7ea590b6817'

const shows = (...uuids: readonly string[]) => ({
  type: 'smbios' as const,
  system: { entries: uuids.map((value) => ({ name: 'uuid' as const, value })) },
})

describe('generated identities', () => {
  test('are equal for the same request and different for another', () => {
    const other = { ...testContext, entropy: { uid: 'other' } }
    expect(drawUuid(testContext, 'uuid')).toBe(drawUuid(testContext, 'uuid'))
    expect(drawUuid(testContext, 'uuid')).not.toBe(drawUuid(testContext, 'genid'))
    expect(drawUuid(testContext, 'uuid')).not.toBe(drawUuid(other, 'uuid'))
    expect(drawMac(testContext, 0)).not.toBe(drawMac(testContext, 1))
    expect(drawMac(testContext, 0)).not.toBe(drawMac(testContext, 0, 1))
    expect(drawMac(testContext, 0)).not.toBe(drawMac(other, 0))
  })

  test('are well-formed for any request', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(), (uid, index) => {
        const context = { ...testContext, entropy: { uid } }
        expect(drawUuid(context, 'uuid')).toMatch(
          /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
        )
        expect(drawMac(context, index)).toMatch(/^52:54:00(?::[0-9a-f]{2}){3}$/)
      }),
    )
  })
})

describe('MAC addresses', () => {
  const macs = (
    interfaces: { mac?: { address?: string } }[],
    isMacTaken?: (address: string) => boolean,
  ): (string | undefined)[] =>
    applied([macAddress], { devices: { interfaces } }, isMacTaken ? { isMacTaken } : {}).devices?.interfaces?.map(
      ({ mac }) => mac?.address,
    ) ?? []

  test('that are set remain, and missing ones are generated', () => {
    expect(macs([{ mac: { address: '52:54:00:00:00:01' } }, {}])).toEqual([
      '52:54:00:00:00:01',
      drawMac(testContext, 1),
    ])
  })

  test('used by another interface of the VM are replaced, in any letter case', () => {
    const taken = drawMac(testContext, 0).toUpperCase()
    expect(macs([{}, { mac: { address: taken } }])).toEqual([drawMac(testContext, 0, 1), taken])
  })

  test('used by another VM in the cluster are replaced', () => {
    const taken = new Set([drawMac(testContext, 0), drawMac(testContext, 0, 1)])
    expect(macs([{}], (address) => taken.has(address))).toEqual([drawMac(testContext, 0, 2)])
  })

  test('that are derived from a config are never replaced: no other VM changes those of its next start', () => {
    const entropy = { ...testContext.entropy, isFixed: true }
    const domain = applied([macAddress], { devices: { interfaces: [{}] } }, { entropy, isMacTaken: () => true })
    expect(domain.devices?.interfaces?.map(({ mac }) => mac?.address)).toEqual([drawMac(testContext, 0)])
  })

  test('run out: an error instead of an endless loop', () => {
    expect(() => macs([{}], () => true)).toThrow('no free MAC address in 1000 attempts')
  })

  test('of many interfaces are distinct', () => {
    const all = macs(Array.from({ length: 400 }, () => ({})))
    expect(new Set(all).size).toBe(400)
  })
})

test.each<[string, NonNullable<Domain['sysinfos']>, string]>([
  ['of SMBIOS', [shows('A94B43356A148BC4D6DAF7EA590B6816')], 'a94b4335-6a14-8bc4-d6da-f7ea590b6816'],
  ['of the last table that has one', [shows(last), shows(first, last), { type: 'smbios' }], first],
  ['generated if SMBIOS has none', [{ type: 'smbios' }, { type: 'fwcfg' }], drawUuid(testContext, 'uuid')],
  ['generated if that of SMBIOS is invalid', [shows('nonsense')], drawUuid(testContext, 'uuid')],
])('the UUID is the one %s', (_, sysinfos, expected) => {
  expect(applied([uuid], { sysinfos }).uuid).toBe(expected)
})

describe('the name of the domain', () => {
  const context = (called: Pick<Context, 'name' | 'generateName'>, previous?: string) => ({
    ...called,
    ...(previous === undefined
      ? {}
      : { entropy: { uid: 'other', previous: { name: previous, uuid: first, macs: [] } } }),
  })
  const named = (uuid: string, ...given: Parameters<typeof context>) =>
    applied([name], { uuid }, context(...given)).name
  const generateName = 'web-'
  const generated = named(first, { generateName })

  test.each<[string, Parameters<typeof context>, string | undefined]>([
    ['that of the VM', [{ name: 'vm' }], 'vm'],
    ['absent if the VM has none', [{}], undefined],
    ['that of the VM, if it had a name before its completion', [{ name: 'web-x7k2p', generateName }], 'web-x7k2p'],
    ['the generated one, before the VM has a name', [{ generateName }, generated], generated],
    [
      'the generated one, after the API server has generated one for the VM',
      [{ name: 'web-x7k2p', generateName }, generated],
      generated,
    ],
    ['not another one with this prefix', [{ name: 'web-x7k2p', generateName }, 'web-0123456789ab'], 'web-x7k2p'],
    ['not the generated one of another prefix', [{ name: 'api-x7k2p', generateName: 'api-' }, generated], 'api-x7k2p'],
  ])('is %s', (_, given, expected) => {
    expect(named(first, ...given)).toBe(expected)
    expect(named(first.toUpperCase(), ...given)).toBe(expected)
  })

  test('differs between VMs with the same prefix, which is cut so that it has 63 characters', () => {
    fc.assert(
      fc.property(fc.stringMatching(/^[a-z][a-z0-9.-]{0,99}$/), fc.uuid(), fc.uuid(), (prefix, one, other) => {
        fc.pre(one !== other)
        const found = named(one, { generateName: prefix }) ?? ''
        expect(found).toMatch(/[0-9a-f]{12}$/)
        expect([found.slice(0, -12), found.length <= 63]).toEqual([prefix.slice(0, 51), true])
        expect(named(other, { generateName: prefix })).not.toBe(found)
      }),
    )
  })
})

test('uuid, generation ID and name are added if they are missing or empty', () => {
  expect(applied([name, uuid, generationId], { genid: '' }, { name: 'vm' })).toEqual({
    name: 'vm',
    uuid: drawUuid(testContext, 'uuid'),
    genid: drawUuid(testContext, 'genid'),
  })
  expect(applied([name, uuid, generationId], { name: 'own', uuid: 'u' }, { name: 'vm' })).toEqual({
    name: 'own',
    uuid: 'u',
  })
})
