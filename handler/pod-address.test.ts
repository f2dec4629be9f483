import { expect, test } from 'vitest'
import { parsePodAddresses } from './pod-address.ts'

const head = [
  '# Kubernetes-managed hosts file.',
  '127.0.0.1\tlocalhost',
  '::1\tlocalhost ip6-localhost ip6-loopback',
  'fe00::0\tip6-localnet',
  'fe00::0\tip6-mcastprefix',
  'fe00::1\tip6-allnodes',
  'fe00::2\tip6-allrouters',
]

const cases: [string, string[], string[]][] = [
  ['takes the pod’s own line', ['10.244.0.7\tvirt-launcher-testvm-1a2b3c4d'], ['10.244.0.7']],
  ['takes those of two families', ['10.244.0.7\tpod', 'fd00:10:244::7\tpod'], ['10.244.0.7', 'fd00:10:244::7']],
  ['takes IPv6 alone', ['fd00:10:244::7\tpod'], ['fd00:10:244::7']],
  ['finds nothing before the network is there', [], []],
  [
    'ignores addresses with zones, which can be long',
    [`fe80::1%${'a'.repeat(50_000)}\tpod`, '10.0.0.1\tpod'],
    ['10.0.0.1'],
  ],
  ['ignores text that is not an address', ['<b>x</b>\tpod', `${'1.'.repeat(30_000)}\tpod`], []],
]

test.each(cases)('%s', (_, lines, expected) => {
  expect(parsePodAddresses([...head, ...lines, ''].join('\n'))).toEqual(expected)
})
