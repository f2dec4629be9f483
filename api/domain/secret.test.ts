import { expect, test } from 'vitest'
import { isSecret, withoutSecrets } from './secret.ts'

test('passwords and cookies are left out, and nothing else', () => {
  const source = { protocol: 'https', name: 'a' }
  const cookies = { cookies: [{ name: 'session', value: 'hidden' }] }
  const domain = {
    name: 'vm',
    devices: {
      graphics: [{ type: 'vnc', passwd: 'hidden', passwdValidTo: '2030-01-31T12:00:00' }, { type: 'spice' }],
      disks: [{ source: { ...source, cookies }, backingStore: { source: { ...source, cookies } } }],
    },
    memory: 64,
    on: [true, null],
  }
  expect(withoutSecrets(domain)).toEqual({
    ...domain,
    devices: {
      graphics: [{ type: 'vnc', passwdValidTo: '2030-01-31T12:00:00' }, { type: 'spice' }],
      disks: [{ source, backingStore: { source } }],
    },
  })
})

test.each([
  ['spec.domain.devices.graphics[0].passwd', true],
  ['spec.domain.devices.disks[1].source.cookies.cookies[0].value', true],
  ['spec.domain.devices.graphics[0]. passwd', true],
  ['spec.domain.devices.graphics[0].passwd\n', true],
  ['spec.domain.devices.graphics[0].passwdValidTo', false],
  ['spec.domain.name', false],
])('%s is a secret: %s', (path, expected) => {
  expect(isSecret(path)).toBe(expected)
})
