import { afterEach, describe, expect, test } from 'vitest'
import { createKubeClient } from '../runtime/kube.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { gadgetOpenApi, gadgetTarget } from '../test/presets/objects.ts'
import { createServedKinds } from './served-kinds.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

const indexOf = (urls: Readonly<Record<string, unknown>>) => ({
  paths: Object.fromEntries(Object.entries(urls).map(([path, url]) => [path, { serverRelativeURL: url }])),
})
const url = '/openapi/v3/apis/example.com/v1'
const hashed = `${url}?hash=1`

/** An API server that serves these documents, by path. */
async function serving(documents: Record<string, unknown>) {
  const api = await startFakeApiServer()
  closing.push(() => api.close())
  const kube = createKubeClient({ access: api.access, userAgent: 'test' })
  closing.push(() => kube.close())
  api.fault = ({ path }) => (path in documents ? { status: 200, body: documents[path] } : undefined)
  const reads = () =>
    api.requests.splice(0).map(({ path, query }) => `${path}${query.size === 0 ? '' : `?${query.toString()}`}`)
  return { kinds: createServedKinds(kube), documents, reads, api }
}

const gadgets = (document: unknown = gadgetOpenApi()) =>
  serving({ '/openapi/v3': indexOf({ 'apis/example.com/v1': hashed }), [url]: document })

const causesOf = (served: Awaited<ReturnType<typeof gadgets>>['kinds'], target: typeof gadgetTarget) => {
  const found = served.get(target)
  return found !== undefined && 'causes' in found ? found.causes : []
}

describe('a kind that the API server serves', () => {
  test('is known with its resource once it has been read', async () => {
    const { kinds, reads } = await gadgets()
    expect(kinds.get(gadgetTarget)).toBeUndefined()
    expect(await kinds.refresh([gadgetTarget])).toEqual({ isChanged: true, errors: [] })
    expect(reads()).toEqual(['/openapi/v3', hashed])
    expect(kinds.get(gadgetTarget)).toMatchObject({
      resource: 'gadgets',
      kind: { target: gadgetTarget, noun: 'Gadget', isNamespaced: true },
    })
  })

  test('is read again only when its document has changed', async () => {
    const { kinds, documents, reads } = await gadgets()
    await kinds.refresh([gadgetTarget])
    reads()
    expect(await kinds.refresh([gadgetTarget])).toEqual({ isChanged: false, errors: [] })
    expect(reads()).toEqual(['/openapi/v3'])
    documents['/openapi/v3'] = indexOf({ 'apis/example.com/v1': `${url}?hash=2` })
    documents[url] = gadgetOpenApi(undefined, 'gadgets')
    expect(await kinds.refresh([gadgetTarget])).toEqual({ isChanged: true, errors: [] })
    expect(reads()).toEqual(['/openapi/v3', `${url}?hash=2`])
    expect(kinds.get(gadgetTarget)).toMatchObject({ kind: { isNamespaced: false } })
  })

  test('shares its document with the others of its group and version', async () => {
    const { kinds, reads } = await gadgets()
    await kinds.refresh([gadgetTarget, { ...gadgetTarget, kind: 'Widget' }])
    expect(reads()).toEqual(['/openapi/v3', hashed])
  })

  test('of the core group is found at its own path', async () => {
    const { kinds, reads } = await serving({
      '/openapi/v3': indexOf({ 'api/v1': '/openapi/v3/api/v1?hash=1' }),
      '/openapi/v3/api/v1': {},
    })
    await kinds.refresh([{ apiVersion: 'v1', kind: 'Pod' }])
    expect(reads()).toEqual(['/openapi/v3', '/openapi/v3/api/v1?hash=1'])
  })

  test('remains known while the API server does not respond', async () => {
    const { kinds, documents, api } = await gadgets()
    await kinds.refresh([gadgetTarget])
    delete documents['/openapi/v3']
    api.fault = () => ({ status: 403 })
    await expect(kinds.refresh([gadgetTarget])).rejects.toThrow('injected')
    expect(kinds.get(gadgetTarget)).toMatchObject({ resource: 'gadgets' })
  })

  test('is read although the document of another kind cannot be', async () => {
    const broken = '/openapi/v3/apis/broken.example/v1'
    const { kinds } = await serving({
      '/openapi/v3': indexOf({ 'apis/broken.example/v1': broken, 'apis/example.com/v1': hashed }),
      [url]: gadgetOpenApi(),
    })
    const other = { apiVersion: 'broken.example/v1', kind: 'Other' }
    const { isChanged, errors } = await kinds.refresh([other, gadgetTarget])
    expect([isChanged, errors.length]).toEqual([true, 1])
    expect(kinds.get(gadgetTarget)).toMatchObject({ resource: 'gadgets' })
    expect(kinds.get(other)).toBeUndefined()
  })

  test('is not asked for without a target', async () => {
    const { kinds, reads } = await gadgets()
    expect(await kinds.refresh([])).toEqual({ isChanged: false, errors: [] })
    expect(reads()).toEqual([])
  })
})

describe('a kind that cannot be used', () => {
  const missing = (field: string, value: string, what: string, suggestion?: string) => ({
    rule: 'preset-target',
    field,
    value,
    reason: 'FieldValueNotFound',
    message: `the API server does not serve ${what}`,
    ...(suggestion === undefined ? {} : { suggestion }),
  })
  const unusable = (fault: string) => ({
    rule: 'preset-target',
    field: 'spec.kind',
    value: 'Gadget',
    reason: 'FieldValueInvalid',
    message: `the schema of Gadget of example.com/v1 cannot be used: ${fault}`,
  })

  test.each<[string, typeof gadgetTarget, unknown, object]>([
    [
      'its version is not served',
      { ...gadgetTarget, apiVersion: 'example.com/v2' },
      undefined,
      missing('spec.apiVersion', 'example.com/v2', 'example.com/v2'),
    ],
    [
      'its name is a little different',
      { ...gadgetTarget, kind: 'Gadgets' },
      undefined,
      missing('spec.kind', 'Gadgets', 'Gadgets of example.com/v1', 'did you mean Gadget of example.com/v1?'),
    ],
    [
      'its name is like no other',
      { ...gadgetTarget, kind: 'PersistentWarehouseReclaimPolicy' },
      undefined,
      missing('spec.kind', 'PersistentWarehouseReclaimPolicy', 'PersistentWarehouseReclaimPolicy of example.com/v1'),
    ],
    [
      'its document is not an OpenAPI document',
      gadgetTarget,
      { openapi: 3 },
      missing('spec.kind', 'Gadget', 'Gadget of example.com/v1'),
    ],
    [
      'its objects cannot be created',
      gadgetTarget,
      { ...gadgetOpenApi(), paths: {} },
      {
        ...missing('spec.kind', 'Gadget', ''),
        message: 'objects of kind Gadget of example.com/v1 cannot be created',
      },
    ],
    [
      'a field of its schema is recursive',
      gadgetTarget,
      gadgetOpenApi({ $ref: '#/components/schemas/com.example.v1.Gadget' }),
      unusable('spec.spec is recursive: com.example.v1.Gadget contains itself'),
    ],
  ])('%s', async (_, target, document, cause) => {
    const { kinds } = await gadgets(document)
    await kinds.refresh([target])
    expect(causesOf(kinds, target)).toEqual([cause])
  })

  test.each<[string, unknown]>([
    ['is a list', []],
    ['has no paths', {}],
    ['has no addresses', { paths: { 'apis/example.com/v1': {} } }],
    ['has an entry that is null', { paths: { 'apis/example.com/v1': null } }],
  ])('the index %s', async (_, index) => {
    const { kinds } = await serving({ '/openapi/v3': index })
    await kinds.refresh([gadgetTarget])
    expect(causesOf(kinds, gadgetTarget)).toEqual([missing('spec.apiVersion', 'example.com/v1', 'example.com/v1')])
  })
})
