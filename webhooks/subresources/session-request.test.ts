import { expect, test } from 'vitest'
import { consolePastBytes } from '../../runtime/session-api.ts'
import { accessOfSession, parseSession } from './session-request.ts'

const vm = { resource: 'virtualmachines', namespace: 'default', name: 'web' } as const
const parse = (subresource: string, query = '') => parseSession(vm, subresource, new URLSearchParams(query))

test.each([
  ['attach/console', '', 'console', { tailBytes: consolePastBytes, isFollowing: true }],
  ['attach/console', 'tailBytes=5&follow=false', 'console', { tailBytes: 5, isFollowing: true }],
  ['attach/console', 'after=0123abcd.7', 'console', { after: { epoch: '0123abcd', offset: 7 }, isFollowing: true }],
  ['log', '', 'log', { tailBytes: consolePastBytes, isFollowing: false, isEndMarked: true }],
  ['log', 'follow=true&tailBytes=0', 'log', { tailBytes: 0, isFollowing: true, isEndMarked: true }],
])('%s?%s', (subresource, query, kind, start) => {
  expect(parse(subresource, query)).toEqual({ ...vm, kind, target: { kind: 'console', ...start } })
})

test.each(['attach', 'attach/console/x', 'toString', 'portforward/22/x'])('%s is no session', (subresource) => {
  expect(parse(subresource)).toBeUndefined()
})

test.each([
  ['attach/vnc', 'vnc', { kind: 'vnc' }],
  ['portforward/22', 'portforward', { kind: 'tcp', port: 22 }],
  ['portforward/65535', 'portforward', { kind: 'tcp', port: 65535 }],
  ['screenshot', 'screenshot', { kind: 'screenshot' }],
  ['metrics', 'metrics', { kind: 'metrics' }],
])('%s', (subresource, kind, target) => {
  expect(parse(subresource)).toEqual({ ...vm, kind, target })
})

test.each([
  ['portforward', '', 400, 'portforward/PORT: must be a port from 1 to 65535'],
  ['portforward/0', '', 400, 'portforward/PORT: must be a port from 1 to 65535'],
  ['portforward/65536', '', 400, 'portforward/PORT: must be a port from 1 to 65535'],
  ['portforward/-1', '', 400, 'portforward/PORT: must be a port from 1 to 65535'],
  ['log', 'tailBytes=-1', 400, 'tailBytes: must be a whole number of bytes, 0 or more'],
  ['log', 'after=x', 400, 'after: must be a position from the header virtset-position'],
  ['log', 'follow=yes', 400, 'follow: must be true or false'],
])('%s?%s is refused with %d', (subresource, query, code, message) => {
  expect(parse(subresource, query)).toEqual({ refused: expect.objectContaining({ code, message }) })
})

test('a console requires update of a subresource of its own, a log only what the API server requires', () => {
  const accessOf = (subresource: string) => {
    const parsed = parse(subresource)
    return parsed === undefined || 'refused' in parsed ? undefined : accessOfSession(parsed)
  }
  const common = { group: 'sessions.virtset.io', ...vm }
  expect(accessOf('attach/console')).toEqual({ ...common, verb: 'update', subresource: 'console' })
  expect(accessOf('log')).toEqual({ ...common, verb: 'get', subresource: 'log' })
  expect(accessOf('attach/vnc')).toEqual({ ...common, verb: 'update', subresource: 'vnc' })
  expect(accessOf('portforward/22')).toEqual({ ...common, verb: 'update', subresource: 'portforward' })
  const atOnce = { ...common, group: 'subresources.virtset.io' }
  expect(accessOf('screenshot')).toEqual({ ...atOnce, verb: 'get', subresource: 'screenshot' })
  expect(accessOf('metrics')).toEqual({ ...atOnce, verb: 'get', subresource: 'metrics' })
})
