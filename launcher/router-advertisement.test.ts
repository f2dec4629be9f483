import { expect, test } from 'vitest'
import { advertisementOf } from './router-advertisement.ts'

const hex = (...parts: readonly string[]) => parts.join('').replaceAll(' ', '')

test('an advertisement has the MTU and the DNS of the pod, and no prefix', () => {
  const offer = { ip: 'fd00::5', mtu: 1450, dns: ['fd00:96::a'], search: ['default.svc.cluster.local'] }
  expect(advertisementOf(offer).toString('hex')).toBe(
    hex(
      // VXLAN and Ethernet
      '08000000 00565400',
      '333300000001 020000005654 86dd',
      // IPv6
      '60000000 0058 3a ff',
      'fe800000000000000000000000005654 ff020000000000000000000000000001',
      '8600 a9d1 40c0 2328 00000000 00000000',
      '0501 0000 000005aa',
      '1903 0000 ffffffff fd00009600000000000000000000000a',
      '1f05 0000 ffffffff 0764656661756c74 0373766307636c75 73746572056c6f63 616c000000000000',
    ),
  )
})

test('its checksum is that of the message and both addresses', () => {
  for (const mtu of [1280, 1450, 9000]) {
    const packet = advertisementOf({ ip: 'fd00::5', mtu }).subarray(22)
    const pseudo = Buffer.concat([packet.subarray(8, 40), Buffer.from([0, 0, 0, packet.length - 40, 0, 0, 0, 58])])
    const covered = Buffer.concat([pseudo, packet.subarray(40)])
    let sum = 0
    for (let at = 0; at < covered.length; at += 2) sum += covered.readUInt16BE(at)
    // Ones' complement.
    expect(sum % 0xffff).toBe(0)
  }
})

test('what has no room in the smallest packet is left out', () => {
  const search = Array.from({ length: 16 }, (_, index) => `${'x'.repeat(60)}.${'y'.repeat(60)}.${index}.example.org`)
  const bytes = advertisementOf({ ip: 'fd00::5', dns: ['fd00::a'], search })
  expect(bytes.length).toBe(8 + 14 + 40 + 16 + 24)
})
