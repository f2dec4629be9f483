import { afterEach, describe, expect, test, vi } from 'vitest'
import { boundedUrl, route } from './route.ts'
import type { PowerRequest } from './route.ts'

afterEach(() => vi.restoreAllMocks())

const at = (verb: string, query = '') =>
  `/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/web/${verb}${query}`
const routed = (more: Partial<PowerRequest> = {}) => ({
  kind: 'power',
  request: { verb: 'start', namespace: 'default', name: 'web', isDryRun: false, isWaiting: false, ...more },
})

describe('accepts a request', () => {
  test.each<[string, string, string, string, Partial<PowerRequest>]>([
    ['by GET', 'GET', at('start'), '', {}],
    ['by POST', 'POST', at('stop'), '', { verb: 'stop' }],
    ['by PUT', 'PUT', at('restart'), '{}', { verb: 'restart' }],
    ['that is a dry run', 'POST', at('start', '?dryRun=All'), '', { isDryRun: true }],
    ['that is a dry run by its body', 'POST', at('start'), '{"dryRun":["All"]}', { isDryRun: true }],
    ['that waits', 'POST', at('start', '?wait'), '', { isWaiting: true }],
    ['that does not wait', 'POST', at('start', '?wait=false'), '', {}],
    [
      'with the longest grace period',
      'POST',
      at('stop', '?gracePeriodSeconds=2147483647'),
      '',
      { verb: 'stop', gracePeriodSeconds: 2_147_483_647 },
    ],
    ['with a grace period', 'POST', at('stop', '?gracePeriodSeconds=0'), '', { verb: 'stop', gracePeriodSeconds: 0 }],
    [
      'with DeleteOptions',
      'POST',
      at('stop'),
      '{"kind":"DeleteOptions","gracePeriodSeconds":9,"x":1}',
      { verb: 'stop', gracePeriodSeconds: 9 },
    ],
    [
      'whose query overrides its body',
      'POST',
      at('stop', '?gracePeriodSeconds=1'),
      '{"gracePeriodSeconds":9}',
      { verb: 'stop', gracePeriodSeconds: 1 },
    ],
  ])('%s', (_, method, url, body, more) => {
    expect(route(method, url, body)).toEqual(routed(more))
  })
})

describe('refuses', () => {
  test.each<[string, string, string, string, number]>([
    ['another method', 'DELETE', at('start'), '', 405],
    ['an unknown subresource', 'POST', at('pause'), '', 404],
    ['a path below a subresource', 'POST', `${at('start')}/now`, '', 404],
    ['another kind', 'POST', at('start').replace('configs', 'groups'), '', 404],
    ['an invalid name', 'POST', at('start').replace('/web/', '/W_B/'), '', 404],
    ['a name with path traversal', 'POST', at('start').replace('/web/', '/..%2f..%2fx/'), '', 404],
    ['dot segments', 'POST', at('start').replace('/default/', '/other/../default/'), '', 404],
    ['bad percent-encoding', 'POST', at('start').replace('/web/', '/%zz/'), '', 404],
    ['a body that is not JSON', 'POST', at('stop'), 'now', 400],
    ['a body that is a list', 'POST', at('stop'), '[]', 400],
    ['an empty grace period', 'POST', at('stop', '?gracePeriodSeconds='), '', 400],
    ['a fractional grace period in the body', 'POST', at('stop'), '{"gracePeriodSeconds":0.5}', 400],
    ['another API root', 'POST', at('start').replace('/apis/', '/api/'), '', 404],
    ['a cluster-scoped path', 'POST', at('start').replace('/namespaces/', '/nodes/'), '', 404],
    ['an invalid namespace', 'POST', at('start').replace('/default/', '/D_T/'), '', 404],
    ['a query that is too long', 'POST', at('start', `?${'x'.repeat(2048)}`), '', 414],
    ['a path that is too long', 'POST', at('x'.repeat(2048)), '', 414],
    ['a fractional grace period', 'POST', at('stop', '?gracePeriodSeconds=0.5'), '', 400],
    ['a negative grace period', 'POST', at('stop'), '{"gracePeriodSeconds":-1}', 400],
    ['a grace period that is too long', 'POST', at('stop', '?gracePeriodSeconds=9999999999'), '', 400],
    ['an empty dryRun', 'POST', at('stop', '?dryRun='), '', 400],
    ['an invalid wait', 'POST', at('start', '?wait=long'), '', 400],
    ['writing a document', 'POST', '/apis/subresources.virtset.io/v1alpha1', '', 405],
    ['the list of groups, which the API server then assembles itself', 'GET', '/apis', '', 404],
    ['another version', 'POST', '/openapi/v4', '', 404],
    ['another version of the group', 'POST', at('stop').replace('v1alpha1', 'v2'), '', 404],
    ['another group', 'POST', at('stop').replace('subresources.', ''), '', 404],
  ])('%s', (_, method, url, body, code) => {
    const found = route(method, url, body)
    expect(found.kind === 'refused' && found.status.code).toBe(code)
  })
})

test.each([
  '/apis/subresources.virtset.io/v1alpha1',
  '/apis/subresources.virtset.io',
  '/openapi/v2',
  '/apis/subresources.virtset.io/v1alpha1/?x=y',
  '/openapi/v3?x=y',
])('GET %s is a document', (url) => {
  expect(route('GET', url, '').kind).toBe('document')
})

const long = `?${'x=&'.repeat(9900)}`
test.each<[string, string, number, string]>([
  ['a document', `/openapi/v2${long}`, 0, 'document'],
  ['a URL that is too long', at('start', long), 0, 'refused'],
  ['another request', at('start', '?wait'), 1, 'power'],
])('the query of %s is parsed as often as it is needed', (_, url, times, kind) => {
  const parsing = vi.spyOn(URL.prototype, 'searchParams', 'get')
  expect([route('GET', url, '').kind, parsing.mock.calls.length]).toEqual([kind, times])
})

test('a URL is cut such that it is refused as well', () => {
  expect([boundedUrl('/openapi/v2?x'), boundedUrl(at('start', long)).length]).toEqual(['/openapi/v2?x', 2049])
  expect(route('POST', boundedUrl(at('start', long)), '')).toMatchObject({ status: { code: 414 } })
})
