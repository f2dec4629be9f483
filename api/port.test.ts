import { expect, test } from 'vitest'
import { checkPorts, type Port } from './port.ts'

const web = { name: 'web', port: 80 }
const nameRule =
  'must be at most 15 lower-case letters, digits and `-`, with at least one letter, and no `-` at an end or beside another'

test.each<[string, readonly Port[], readonly string[]]>([
  ['differ in number', [web, { name: 'alt', port: 8080 }], []],
  ['differ in protocol', [web, { name: 'quic', port: 80, protocol: 'UDP' }], []],
  [
    'are equal',
    [web, { name: 'alt', port: 80, protocol: 'TCP' }],
    ['p[1].port: p[0] already has this port with protocol TCP'],
  ],
  [
    'have names that Kubernetes refuses',
    ['80', 'Web', 'a--b', '-a', 'a-', 'a'.repeat(16)].map((name, port) => ({ name, port: port + 1 })),
    [0, 1, 2, 3, 4, 5].map((index) => `p[${index}].name: ${nameRule}`),
  ],
])('ports that %s', (_, given, causes) => {
  expect(checkPorts(given, 'p').map(({ field, message }) => `${field}: ${message}`)).toEqual(causes)
})
