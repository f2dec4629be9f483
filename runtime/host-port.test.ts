import { expect, test } from 'vitest'
import { hostPort } from './host-port.ts'

test.each([
  ['10.0.0.1', 443, '10.0.0.1:443'],
  ['fd00::1', '6443', '[fd00::1]:6443'],
  ['kubernetes.default', 443, 'kubernetes.default:443'],
])('%s and %s', (host, port, expected) => expect(hostPort(host, port)).toBe(expected))
