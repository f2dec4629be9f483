import { expect, test } from 'vitest'
import { consolePastBytes } from '../../runtime/session-api.ts'
import { accessOfSession, parseSession } from './session-request.ts'

const vm = { namespace: 'default', name: 'web' }
const parse = (subresource: string, query = '') => parseSession(vm, subresource, new URLSearchParams(query))

test.each([
  ['attach/console', '', 'console', { tailBytes: consolePastBytes, isFollowing: true }],
  ['attach/console', 'tailBytes=5&follow=false', 'console', { tailBytes: 5, isFollowing: true }],
  ['attach/console', 'after=0123abcd.7', 'console', { after: { epoch: '0123abcd', offset: 7 }, isFollowing: true }],
  ['log', '', 'log', { tailBytes: consolePastBytes, isFollowing: false }],
  ['log', 'follow=true&tailBytes=0', 'log', { tailBytes: 0, isFollowing: true }],
])('%s?%s', (subresource, query, kind, start) => {
  expect(parse(subresource, query)).toEqual({ ...vm, kind, target: { kind: 'console', ...start } })
})

test.each([
  ['attach', '', 404, 'subresource "attach" does not exist; valid: attach/console, log'],
  ['attach/console/x', '', 404, 'subresource "attach/console/x" does not exist; valid: attach/console, log'],
  ['toString', '', 404, 'subresource "toString" does not exist; valid: attach/console, log'],
  ['log', 'tailBytes=-1', 400, 'tailBytes: must be a whole number of bytes, 0 or more'],
  ['log', 'after=x', 400, 'after: must be a position from the header virtset-position'],
  ['log', 'follow=yes', 400, 'follow: must be true or false'],
])('%s?%s is refused with %d', (subresource, query, code, message) => {
  expect(parse(subresource, query)).toEqual({ refused: expect.objectContaining({ code, message }) })
})

test('a console requires update of a subresource of its own, a log only what the API server requires', () => {
  const accessOf = (subresource: string) => {
    const parsed = parse(subresource)
    return 'refused' in parsed ? undefined : accessOfSession(parsed)
  }
  const common = { group: 'subresources.virtset.io', resource: 'virtualmachines', ...vm }
  expect(accessOf('attach/console')).toEqual({ ...common, verb: 'update', subresource: 'console' })
  expect(accessOf('log')).toEqual({ ...common, verb: 'get', subresource: 'log' })
})
