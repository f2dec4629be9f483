import { expect, test } from 'vitest'
import { checkProbes, type Probe } from './probe.ts'

test.each<[string, Probe | undefined, readonly string[]]>([
  ['no probe', undefined, []],
  ['one kind', { tcpSocket: { port: 80 } }, []],
  ['no kind', { periodSeconds: 5 }, ['p.startupProbe: must set httpGet or tcpSocket']],
  [
    'two kinds',
    { httpGet: { port: 'web' }, tcpSocket: { port: 80 } },
    ['p.startupProbe.tcpSocket: conflicts with httpGet: a probe has one kind'],
  ],
])('%s', (_, probe, causes) => {
  const probes = probe === undefined ? {} : { startupProbe: probe }
  expect(checkProbes(probes, 'p').map(({ field, message }) => `${field}: ${message}`)).toEqual(causes)
})
