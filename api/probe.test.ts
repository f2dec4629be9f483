import { expect, test } from 'vitest'
import { checkProbes, type Probe } from './probe.ts'

test.each<[string, Probe | undefined, readonly string[]]>([
  ['no probe', undefined, []],
  ['one kind', { tcpSocket: { port: 80 } }, []],
  ['no kind', { periodSeconds: 5 }, ['p.startupProbe: must set httpGet, tcpSocket or exec']],
  [
    'two kinds',
    { httpGet: { port: 'web' }, tcpSocket: { port: 80 } },
    ['p.startupProbe.tcpSocket: conflicts with httpGet: a probe has one kind'],
  ],
  ['a command', { exec: { command: ['/bin/sh', '-c', '', 'x'.repeat(4096)] } }, []],
  [
    'a command beside another kind',
    { tcpSocket: { port: 80 }, exec: { command: ['true'] } },
    ['p.startupProbe.exec: conflicts with tcpSocket: a probe has one kind'],
  ],
  [
    'a command without a program',
    { exec: { command: ['', 'a'] } },
    ['p.startupProbe.exec.command[0]: must be the path or name of a program in the guest'],
  ],
  [
    'a command that no process can have',
    { exec: { command: ['a', 'b\0c'] } },
    ['p.startupProbe.exec.command[1]: must not contain a NUL character'],
  ],
  [
    'a command that is too long',
    { exec: { command: ['a', 'x'.repeat(4096), 'x'.repeat(4096)] } },
    ['p.startupProbe.exec.command: must have at most 8192 characters in all; use a script in the guest'],
  ],
])('%s', (_, probe, causes) => {
  const probes = probe === undefined ? {} : { startupProbe: probe }
  expect(checkProbes(probes, 'p').map(({ field, message }) => `${field}: ${message}`)).toEqual(causes)
})
