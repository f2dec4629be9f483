/** The version of the aggregated APIs. */
export const version = 'v1alpha1'

/**
 * The discovery documents of an aggregated API, by path. The OpenAPI documents are empty; without them the aggregator
 * logs an error every minute.
 */
export function discoveryOf(group: string, resources: readonly object[]): ReadonlyMap<string, object> {
  const groupVersion = `${group}/${version}`
  const discovered = { groupVersion, version }
  return new Map<string, object>([
    [`/apis/${groupVersion}`, { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources }],
    [
      `/apis/${group}`,
      { kind: 'APIGroup', apiVersion: 'v1', name: group, versions: [discovered], preferredVersion: discovered },
    ],
    ['/openapi/v2', { swagger: '2.0', info: { title: 'virtset', version }, paths: {} }],
    [
      '/openapi/v3',
      {
        paths: { [`apis/${groupVersion}`]: { serverRelativeURL: `/openapi/v3/apis/${groupVersion}?hash=${version}` } },
      },
    ],
    [`/openapi/v3/apis/${groupVersion}`, { openapi: '3.0.0', info: { title: 'virtset', version }, paths: {} }],
  ])
}
