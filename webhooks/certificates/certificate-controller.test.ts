import { afterEach, describe, expect, test } from 'vitest'
import { createKubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { createSelfSigned } from '../../runtime/self-signed.ts'
import { startFakeApiServer } from '../../test/fake-apiserver.ts'
import type { FakeApiServer } from '../../test/fake-apiserver.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { until } from '../../test/until.ts'
import { createAuthority, readCertificates } from './authority.ts'
import { runCertificateController, reconcileCertificates, reconcileFirst } from './certificate-controller.ts'
import type { CertificateControllerOptions } from './certificate-controller.ts'
import { settleMs } from './plan.ts'
import type { Certificate, Leaf } from './plan.ts'

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

const secrets = '/api/v1/secrets'
const apiServices = '/apis/apiregistration.k8s.io/v1/apiservices'
const namespace = 'virtset-system'
const secretName = 'certificates'
const apiServiceNames = ['admission', 'subresources', 'sessions'].map((api) => `v1alpha1.${api}.virtset.io`)

/** A replica of the webhooks at an API server that has the APIServices. */
async function setUp() {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  const kube = createKubeClient({ access: server.access, userAgent: 'test', clock })
  closing.push(
    () => server.close(),
    () => kube.close(),
  )
  publishAll(server, {})
  const served: { leaf: Leaf; authority: Certificate | undefined }[] = []
  const events: string[] = []
  const lines: { [key: string]: unknown }[] = []
  const options: CertificateControllerOptions = {
    kube,
    clock,
    log: createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } }),
    namespace,
    secretName,
    apiServiceNames,
    dnsNames: ['webhooks.svc'],
    serve: (leaf, authority) => served.push({ leaf, authority }),
    recordEvent: ({ type, reason }) => events.push(`${type} ${reason}`),
  }
  return { clock, server, options, served, events, lines }
}

const secretOf = (server: FakeApiServer) => {
  const data = server.find(secrets, namespace, secretName)?.['data'] as Record<string, string> | undefined
  return Object.fromEntries(Object.entries(data ?? {}).map(([key, text]) => [key, fromBase64(text)]))
}
/** Fails if the APIServices have different bundles. */
const certificatesOf = (server: FakeApiServer) => {
  const bundles = apiServiceNames.map((name) => {
    const spec = server.find(apiServices, undefined, name)?.['spec'] as { caBundle?: string } | undefined
    return readCertificates(fromBase64(spec?.caBundle ?? ''))
  })
  expect(bundles).toEqual(bundles.map(() => bundles[0]))
  return bundles[0] ?? []
}
const bundleOf = (server: FakeApiServer) => certificatesOf(server).map(({ subject }) => subject)
const bundlePems = (server: FakeApiServer) => certificatesOf(server).map(({ pem }) => pem)
const withoutAuthorities = (server: FakeApiServer) => {
  const { 'ca.crt': _certificates, 'ca.key': _keys, ...data } = secretOf(server)
  const encoded = Object.fromEntries(Object.entries(data).map(([key, text]) => [key, toBase64(text)]))
  server.put(secrets, { metadata: { namespace, name: secretName }, data: encoded })
}
const publishAll = (server: FakeApiServer, spec: { readonly caBundle?: string }) => {
  for (const name of apiServiceNames) server.put(apiServices, { metadata: { name }, spec })
}
const fromBase64 = (text: string) => Buffer.from(text, 'base64').toString()
const toBase64 = (text: string) => Buffer.from(text).toString('base64')

const writes = (server: FakeApiServer) =>
  server.requests.filter(({ method }) => method !== 'GET').map(({ method, path }) => `${method} ${path}`)

describe('reconcileCertificates', () => {
  test('creates an authority, publishes it, issues a leaf and serves it', async () => {
    const { server, options, served, events } = await setUp()
    const leaf = await reconcileCertificates(options, undefined)
    expect(served).toMatchObject([
      { leaf: { pem: leaf.pem, dnsNames: ['webhooks.svc'] }, authority: { subject: leaf.issuer } },
    ])
    expect(bundleOf(server)).toEqual([leaf.issuer])
    expect(secretOf(server)).toMatchObject({ 'tls.crt': `${leaf.pem}\n`, 'tls.key': `${leaf.key.trim()}\n` })
    expect(events).toEqual(['Normal AuthorityCreated', 'Normal CaBundlePublished', 'Normal CertificateIssued'])
    expect(writes(server)).toEqual([
      `POST /api/v1/namespaces/${namespace}/secrets`,
      ...apiServiceNames.map((name) => `PATCH ${apiServices}/${name}`),
      `PUT /api/v1/namespaces/${namespace}/secrets/${secretName}`,
    ])
  })

  test('does nothing when everything is in order', async () => {
    const { server, options, served, events } = await setUp()
    const first = await reconcileCertificates(options, undefined)
    const before = [writes(server).length, served.length, events.length]
    expect((await reconcileCertificates(options, first)).pem).toBe(first.pem)
    expect([writes(server).length, served.length, events.length]).toEqual(before)
  })

  test('serves the leaf that another replica issued', async () => {
    const { options, served, events } = await setUp()
    const first = await reconcileCertificates(options, undefined)
    events.length = 0
    expect((await reconcileCertificates(options, undefined)).pem).toBe(first.pem)
    expect([served.map(({ leaf }) => leaf.pem), events]).toEqual([[first.pem, first.pem], []])
  })

  test.each(apiServiceNames)('repairs a caBundle of %s that was overwritten', async (name) => {
    const { server, options, events, lines } = await setUp()
    const first = await reconcileCertificates(options, undefined)
    const foreign = await createAuthority(options.clock.now())
    server.put(apiServices, { metadata: { name }, spec: { caBundle: toBase64(foreign.pem) } })
    events.length = 0
    await reconcileCertificates(options, first)
    expect([bundleOf(server), events]).toEqual([[first.issuer], ['Warning CaBundleRepaired']])
    expect(lines.map(({ level }) => level)).toEqual(['info', 'info', 'info', 'warn'])
    expect(lines.at(-1)).toMatchObject({ level: 'warn', step: 'publish', reason: 'CaBundleRepaired' })
  })

  test.each<[string, (server: FakeApiServer) => void, boolean]>([
    ['intact', () => {}, true],
    ['deleted', (server) => server.remove(secrets, namespace, secretName), true],
    ['deleted before it started', (server) => server.remove(secrets, namespace, secretName), false],
    ['without its authorities when it started', withoutAuthorities, false],
  ])(
    'spreads no authority with the name of ours from one caBundle if the Secret is %s',
    async (_, damage, isServing) => {
      const { server, options } = await setUp()
      const first = await reconcileCertificates(options, undefined)
      const [name = ''] = apiServiceNames
      const [genuine = ''] = bundlePems(server)
      const forged = createSelfSigned(first.issuer.replace('CN=', ''), options.clock.now()).cert.trim()
      server.put(apiServices, { metadata: { name }, spec: { caBundle: toBase64(`${forged}\n${genuine}`) } })
      damage(server)
      await reconcileCertificates(options, isServing ? first : undefined)
      expect(bundlePems(server)).toContain(genuine)
      expect(bundlePems(server)).not.toContain(forged)
      expect(secretOf(server)['ca.crt']).not.toContain(forged)
    },
  )

  test('restores a leaf that was removed from the Secret', async () => {
    const { server, options, events } = await setUp()
    const first = await reconcileCertificates(options, undefined)
    const { 'ca.crt': certificates = '', 'ca.key': keys = '' } = secretOf(server)
    const data = { 'ca.crt': toBase64(certificates), 'ca.key': toBase64(keys) }
    server.put(secrets, { metadata: { namespace, name: secretName }, data })
    events.length = 0
    expect((await reconcileCertificates(options, first)).pem).toBe(first.pem)
    expect([secretOf(server)['tls.crt'], events]).toEqual([`${first.pem}\n`, ['Warning SecretRepaired']])
  })

  test('changes the caBundle only at the resourceVersion that it has read', async () => {
    const { server, options } = await setUp()
    await reconcileCertificates(options, undefined)
    const patch = server.requests.find(({ method }) => method === 'PATCH')
    expect(patch?.body).toMatchObject([{ op: 'test', path: '/metadata/resourceVersion' }, { op: 'add' }])
  })

  test('issues another certificate if the one in the Secret lacks a name', async () => {
    const { options, served, events } = await setUp()
    const first = await reconcileCertificates(options, undefined)
    events.length = 0
    const dnsNames = [...options.dnsNames, 'subresources.svc']
    const next = await reconcileCertificates({ ...options, dnsNames }, undefined)
    expect([next.dnsNames, next.issuer, events]).toEqual([dnsNames, first.issuer, ['Normal CertificateRenewed']])
    // A replica of the version that does not know the name serves it as well.
    expect((await reconcileCertificates(options, first)).pem).toBe(next.pem)
    expect(served.at(-1)?.leaf.pem).toBe(next.pem)
  })

  test('replaces a deleted Secret and trusts the old authority while its leaf is served', async () => {
    const { server, options, served, events } = await setUp()
    const first = await reconcileCertificates(options, undefined)
    server.remove(secrets, namespace, secretName)
    events.length = 0
    const next = await reconcileCertificates(options, first)
    expect([next.pem, bundleOf(server).length, events.includes('Warning AuthorityLost')]).toEqual([first.pem, 2, true])
    expect(bundleOf(server)).toContain(first.issuer)
    expect(readCertificates(secretOf(server)['ca.crt'] ?? '').map(({ subject }) => subject)).toContain(first.issuer)
    // Another replica that starts now presents the same chain.
    await reconcileCertificates(options, undefined)
    expect(served.at(-1)).toMatchObject({ leaf: { pem: first.pem }, authority: { subject: first.issuer } })
  })

  test.each<[string, (server: FakeApiServer) => void]>([
    ['deleted', (server) => server.remove(secrets, namespace, secretName)],
    ['emptied', (server) => void server.put(secrets, { metadata: { namespace, name: secretName }, data: {} })],
  ])('trusts what the other replicas serve when it starts after the Secret was %s', async (_, damage) => {
    const { clock, server, options, events } = await setUp()
    const first = await reconcileCertificates(options, undefined)
    damage(server)
    events.length = 0
    const next = await reconcileCertificates(options, undefined)
    expect([next.issuer === first.issuer, bundleOf(server)]).toEqual([false, [next.issuer, first.issuer]])
    expect(events).toEqual(['Warning AuthorityLost', 'Normal CaBundlePublished', 'Normal CertificateIssued'])
    expect((await reconcileCertificates(options, first)).pem).toBe(first.pem)
    await clock.advance(settleMs)
    expect((await reconcileCertificates(options, first)).pem).toBe(next.pem)
    expect(bundleOf(server)).toEqual([next.issuer, first.issuer])
    await clock.advance(settleMs)
    await reconcileCertificates(options, next)
    expect(bundleOf(server)).toEqual([next.issuer])
  })

  test('serves its certificate, and none of a Secret that was restored, until its next authority is trusted', async () => {
    const { clock, server, options, events } = await setUp()
    const first = await reconcileCertificates(options, undefined)
    const backup = server.find(secrets, namespace, secretName)
    server.remove(secrets, namespace, secretName)
    publishAll(server, {})
    const second = await reconcileCertificates(options, undefined)
    await clock.advance(settleMs)
    server.put(secrets, { metadata: { namespace, name: secretName }, data: backup?.['data'] })
    events.length = 0
    expect((await reconcileCertificates(options, second)).pem).toBe(second.pem)
    expect(events).toEqual(['Warning AuthorityLost', 'Normal CaBundlePublished', 'Warning SecretRepaired'])
    expect(bundleOf(server)).toEqual([expect.any(String), second.issuer])
    await clock.advance(settleMs)
    const third = await reconcileCertificates(options, second)
    expect([first.issuer, second.issuer].includes(third.issuer)).toBe(false)
  })

  test('trusts the previous authority beside the next one', async () => {
    const { clock, server, options, events } = await setUp()
    const first = await reconcileCertificates(options, undefined)
    await clock.advance(250 * 24 * 3_600_000)
    events.length = 0
    await reconcileCertificates(options, first)
    expect(events).toEqual(['Normal AuthorityRenewed', 'Normal CaBundlePublished', 'Warning CertificateExpired'])
    expect([bundleOf(server).length, bundleOf(server)]).toEqual([2, expect.arrayContaining([first.issuer])])
  })

  test('does not write the caBundle that another replica has just published', async () => {
    const { server, options, events } = await setUp()
    let reads = 0
    server.fault = ({ method, path }) => {
      if (method !== 'GET' || !path.startsWith(apiServices)) return undefined
      reads += 1
      const caBundle = toBase64(secretOf(server)['ca.crt'] ?? '')
      // The first reads precede the authority and the step; the third ones are those before the writes.
      if (reads === 5) publishAll(server, { caBundle })
      return undefined
    }
    const leaf = await reconcileCertificates(options, undefined)
    expect([bundleOf(server), events]).toEqual([[leaf.issuer], ['Normal AuthorityCreated', 'Normal CertificateIssued']])
  })

  test.each<[string, string, number, string, number]>([
    ['creates the Secret', 'POST', 409, 'AlreadyExists', 3],
    ['updates the Secret', 'PUT', 409, 'Conflict', 3],
    ['deletes the Secret', 'PUT', 404, 'NotFound', 3],
    // The bundle of the other one is published in a step before.
    ['changes an APIService', 'PATCH', 422, 'Invalid', 4],
  ])('observes again when another replica %s first', async (_, method, status, reason, steps) => {
    const { server, options, events } = await setUp()
    let failures = 0
    server.fault = (request) => {
      if (request.method !== method || failures > 0) return undefined
      failures += 1
      return { status, body: { kind: 'Status', status: 'Failure', code: status, reason, message: reason } }
    }
    await reconcileCertificates(options, undefined)
    expect([failures, events.length]).toEqual([1, steps])
  })

  test('throws every other error, and gives up after twenty steps', async () => {
    const { server, options } = await setUp()
    const failWith = (status: number, reason: string) => {
      const body = { kind: 'Status', status: 'Failure', code: status, reason, message: reason }
      server.fault = ({ method }) => (method === 'POST' ? { status, body } : undefined)
    }
    failWith(403, 'Forbidden')
    await expect(reconcileCertificates(options, undefined)).rejects.toThrow('Forbidden')
    failWith(409, 'AlreadyExists')
    await expect(reconcileCertificates(options, undefined)).rejects.toThrow('did not settle in 20 steps')
    expect(writes(server).length).toBe(1 + 20)
  })
})

test('reconcileFirst retries every second until there is a certificate', async () => {
  const { clock, server, options, lines } = await setUp()
  server.fault = () => 'reset'
  const first = reconcileFirst(options, new AbortController().signal)
  await until(() => lines.length === 1)
  server.fault = undefined
  await until(() => clock.pending() > 0)
  await clock.advance(1000)
  expect((await first).dnsNames).toEqual(['webhooks.svc'])
  expect(lines[0]).toMatchObject({ level: 'warn', msg: 'no certificate yet; retrying' })
})

test('runCertificateController settles every 15 s, logs errors and continues, until its signal aborts', async () => {
  const { clock, server, options, events, lines } = await setUp()
  const first = await reconcileCertificates(options, undefined)
  const stop = new AbortController()
  const keeping = runCertificateController(options, first, stop.signal)
  await until(() => clock.pending() > 0)
  server.fault = () => 'reset'
  await clock.advance(15_000)
  await until(() => lines.some(({ msg }) => msg === 'could not settle the certificates; retrying'))
  server.fault = undefined
  publishAll(server, {})
  await until(() => clock.pending() > 0)
  await clock.advance(15_000)
  await until(() => events.includes('Warning CaBundleRepaired'))
  await until(() => clock.pending() > 0)
  const requests = server.requests.length
  stop.abort()
  await keeping
  expect(server.requests.length).toBe(requests)
})
