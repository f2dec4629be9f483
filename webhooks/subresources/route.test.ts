import { afterEach, describe, expect, test, vi } from 'vitest'
import { boundedUrl, powerRequest, route, type PowerRequest } from './route.ts'
import { sessionsApi, subresourcesApi } from './user-api.ts'

afterEach(() => vi.restoreAllMocks())

const at = (verb: string, query = '') =>
  `/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/web/${verb}${query}`
const routed = (more: Partial<PowerRequest> = {}) => ({
  verb: 'start',
  namespace: 'default',
  name: 'web',
  isDryRun: false,
  isWaiting: false,
  ...more,
})
const ask = (method: string, url: string, body: string) => {
  const found = route(subresourcesApi, method, url)
  if (found.kind === 'refused') return { refused: found.status }
  return found.kind === 'power' ? powerRequest(found, body) : found
}

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
    expect(ask(method, url, body)).toEqual(routed(more))
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
    ['the group of sessions', 'POST', at('stop').replace('subresources', 'sessions'), '', 404],
    ['a power request of a VM', 'POST', at('stop').replace('configs', 's'), '', 404],
  ])('%s', (_, method, url, body, code) => {
    const status = expect.objectContaining({ code })
    expect(ask(method, url, body)).toEqual({ refused: status })
  })
})

test.each([
  '/apis/subresources.virtset.io/v1alpha1',
  '/apis/subresources.virtset.io',
  '/openapi/v2',
  '/apis/subresources.virtset.io/v1alpha1/?x=y',
  '/openapi/v3?x=y',
])('GET %s is a document', (url) => {
  expect(route(subresourcesApi, 'GET', url).kind).toBe('document')
})

const long = `?${'x=&'.repeat(9900)}`
test.each<[string, string, number, string]>([
  ['a document', `/openapi/v2${long}`, 0, 'document'],
  ['a URL that is too long', at('start', long), 0, 'refused'],
  ['another request', at('start', '?wait'), 1, 'power'],
])('the query of %s is parsed as often as it is needed', (_, url, times, kind) => {
  const parsing = vi.spyOn(URL.prototype, 'searchParams', 'get')
  expect([route(subresourcesApi, 'GET', url).kind, parsing.mock.calls.length]).toEqual([kind, times])
})

test('a URL is cut such that it is refused as well', () => {
  expect([boundedUrl('/openapi/v2?x'), boundedUrl(at('start', long)).length]).toEqual(['/openapi/v2?x', 2049])
  expect(route(subresourcesApi, 'POST', boundedUrl(at('start', long)))).toMatchObject({ status: { code: 414 } })
})

const below = (group: string, subresource: string) =>
  `/apis/${group}.virtset.io/v1alpha1/namespaces/default/virtualmachines/web/${subresource}`

test.each([
  [sessionsApi, 'sessions', ['attach/console', 'attach/vnc', 'portforward/22', 'log']],
  [subresourcesApi, 'subresources', ['screenshot', 'metrics']],
])('the API of %# has its sessions, and no others', (api, group, own) => {
  const all = ['attach/console', 'attach/vnc', 'portforward/22', 'log', 'screenshot', 'metrics']
  const found = all.filter((subresource) => route(api, 'GET', below(group, subresource)).kind === 'session')
  expect(found).toEqual(own)
})

test.each(['attach', 'attach/console/x', 'toString', 'portforward/22/x', 'metrics', 'start'])(
  'a refusal of %s names what the API of sessions has',
  (subresource) => {
    expect(route(sessionsApi, 'GET', below('sessions', subresource))).toEqual({
      kind: 'refused',
      status: {
        code: 404,
        reason: 'NotFound',
        message: `subresource "${subresource}" does not exist; valid: attach/console, attach/vnc, portforward/PORT, log`,
      },
    })
  },
)
