import { expect, test } from 'vitest'
import { checkHttpSource, shownUrl } from './http-source.ts'

const checksum = `sha256:${'0a'.repeat(32)}`
const url = 'https://example.com/disk.qcow2'

test.each([
  ['https', { url, checksum }],
  ['http with a port and a query', { url: 'http://files.default.svc:8080/disk?version=1', checksum }],
  ['an address', { url: 'http://[fd00::1]/disk', checksum }],
  ['sha512', { url, checksum: `sha512:${'0a'.repeat(64)}` }],
])('%s is accepted', (_, source) => expect(checkHttpSource(source, 'http')).toEqual([]))

test.each([
  ['no URL', { url: 'disk.qcow2', checksum }, 'http.url', /must be an absolute URL/],
  ['another scheme', { url: 'file:///etc/passwd', checksum }, 'http.url', /must be an absolute URL/],
  ['ftp', { url: 'ftp://example.com/disk', checksum }, 'http.url', /http and https are supported/],
  ['a password', { url: 'https://me:hidden@example.com/disk', checksum }, 'http.url', /no user and no password/],
  ['a user', { url: 'https://me@example.com/disk', checksum }, 'http.url', /no user and no password/],
  ['another algorithm', { url, checksum: `md5:${'0a'.repeat(16)}` }, 'http.checksum', /sha256sum FILE/],
  ['no algorithm', { url, checksum: '0a'.repeat(32) }, 'http.checksum', /sha256sum FILE/],
  ['upper case', { url, checksum: `sha256:${'0A'.repeat(32)}` }, 'http.checksum', /lower-case/],
  ['a cut checksum', { url, checksum: checksum.slice(0, -1) }, 'http.checksum', /64 digits/],
])('%s is refused', (_, source, field, message) => {
  const causes = checkHttpSource(source, 'http')
  expect(causes).toEqual([
    expect.objectContaining({ field, reason: 'FieldValueInvalid', message: expect.stringMatching(message) }),
  ])
  expect(JSON.stringify(causes)).not.toContain('hidden')
})

test('a URL is shown without what can be secret', () =>
  expect(shownUrl('https://me:hidden@example.com:8443/a/disk?token=hidden#hidden')).toBe(
    'https://example.com:8443/a/disk',
  ))
