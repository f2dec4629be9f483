import { describe, expect, test } from 'vitest'
import { route } from './route.ts'
import type { Wish } from './route.ts'

const at = (verb: string, query = '') =>
  `/apis/subresources.virtset.io/v1alpha1/namespaces/default/virtualmachineconfigs/web/${verb}${query}`
const wish = (more: Partial<Wish> = {}) => ({
  kind: 'wish',
  wish: { verb: 'start', namespace: 'default', name: 'web', isDryRun: false, isWaiting: false, ...more },
})

describe('a wish', () => {
  test.each<[string, string, string, string, Partial<Wish>]>([
    ['by GET', 'GET', at('start'), '', {}],
    ['by POST', 'POST', at('stop'), '', { verb: 'stop' }],
    ['by PUT', 'PUT', at('restart'), '{}', { verb: 'restart' }],
    ['that is only tried', 'POST', at('start', '?dryRun=All'), '', { isDryRun: true }],
    ['that is only tried, by its body', 'POST', at('start'), '{"dryRun":["All"]}', { isDryRun: true }],
    ['that waits', 'POST', at('start', '?wait'), '', { isWaiting: true }],
    ['that does not wait', 'POST', at('start', '?wait=false'), '', {}],
    ['with a grace period', 'POST', at('stop', '?gracePeriodSeconds=0'), '', { verb: 'stop', gracePeriodSeconds: 0 }],
    [
      'with DeleteOptions',
      'POST',
      at('stop'),
      '{"kind":"DeleteOptions","gracePeriodSeconds":9,"x":1}',
      { verb: 'stop', gracePeriodSeconds: 9 },
    ],
    [
      'whose query counts more than its body',
      'POST',
      at('stop', '?gracePeriodSeconds=1'),
      '{"gracePeriodSeconds":9}',
      { verb: 'stop', gracePeriodSeconds: 1 },
    ],
  ])('%s', (_, method, url, body, more) => {
    expect(route(method, url, body)).toEqual(wish(more))
  })
})

describe('what is refused', () => {
  test.each<[string, string, string, string, number]>([
    ['another method', 'DELETE', at('start'), '', 405],
    ['an unknown sub-resource', 'POST', at('pause'), '', 404],
    ['something below a sub-resource', 'POST', `${at('start')}/now`, '', 404],
    ['another kind', 'POST', at('start').replace('configs', 'groups'), '', 404],
    ['a name that is none', 'POST', at('start').replace('/web/', '/W_B/'), '', 404],
    ['a name that climbs', 'POST', at('start').replace('/web/', '/..%2f..%2fx/'), '', 404],
    ['bad percent-encoding', 'POST', at('start').replace('/web/', '/%zz/'), '', 404],
    ['no JSON', 'POST', at('stop'), 'now', 400],
    ['a list', 'POST', at('stop'), '[]', 400],
    ['half a grace period', 'POST', at('stop', '?gracePeriodSeconds=0.5'), '', 400],
    ['a negative grace period', 'POST', at('stop'), '{"gracePeriodSeconds":-1}', 400],
    ['a grace period of an aeon', 'POST', at('stop', '?gracePeriodSeconds=9999999999'), '', 400],
    ['a dry run of nothing', 'POST', at('stop', '?dryRun='), '', 400],
    ['a wait of some kind', 'POST', at('start', '?wait=long'), '', 400],
    ['writing a document', 'POST', '/apis/subresources.virtset.io/v1alpha1', '', 405],
    ['the list of groups, which the API server then puts together itself', 'GET', '/apis', '', 404],
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
  '/openapi/v3?x=y',
])('GET %s is a document', (url) => {
  expect(route('GET', url, '').kind).toBe('document')
})
