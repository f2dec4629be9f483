import { expect, test } from 'vitest'
import { checkProbe, type Probe } from './probe.ts'

test.each<[string, Probe | undefined, readonly string[]]>([
  ['no probe', undefined, []],
  ['one kind', { tcpSocket: { port: 80 } }, []],
  ['no kind', { periodSeconds: 5 }, ['p: must set httpGet or tcpSocket']],
  [
    'two kinds',
    { httpGet: { port: 'web' }, tcpSocket: { port: 80 } },
    ['p.tcpSocket: conflicts with httpGet: a probe has one kind'],
  ],
])('%s', (_, probe, causes) => {
  expect(checkProbe(probe, 'p').map(({ field, message }) => `${field}: ${message}`)).toEqual(causes)
})
