import { isAlreadyExists, isConflict, isInvalid, isNotFound } from '../../runtime/api-error.ts'
import type { Clock } from '../../runtime/clock.ts'
import { sleep } from '../../runtime/clock.ts'
import type { KubeClient } from '../../runtime/kube.ts'
import type { Logger } from '../../runtime/log.ts'
import { resource } from '../../runtime/resource.ts'
import type { KubeObject, Persisted } from '../../runtime/resource.ts'
import {
  createAuthority,
  hasSigned,
  isAuthority,
  issueLeaf,
  readAuthorities,
  readCertificates,
  readLeaf,
} from './authority.ts'
import { eventOf } from './event.ts'
import type { CertificateEvent } from './event.ts'
import { planCertificates } from './plan.ts'
import type { Certificate, Keyring, Leaf, Observed, Step } from './plan.ts'

interface Secret extends KubeObject {
  readonly type?: string
  readonly data?: { readonly [key: string]: string }
}

const secrets = resource<Secret>({ group: '', version: 'v1', plural: 'secrets', kind: 'Secret', namespaced: true })

interface ApiService extends KubeObject {
  readonly spec?: { readonly caBundle?: string }
}

const apiServices = resource<ApiService>({
  group: 'apiregistration.k8s.io',
  version: 'v1',
  plural: 'apiservices',
  kind: 'APIService',
  namespaced: false,
})

export interface CertificateControllerOptions {
  readonly kube: KubeClient
  readonly clock: Clock
  readonly log: Logger
  /** The namespace of the Secret. */
  readonly namespace: string
  readonly secretName: string
  /** The APIServices that this process serves, through which the API server also sends admission requests. */
  readonly apiServiceNames: readonly string[]
  readonly dnsNames: readonly string[]
  /** Called whenever another certificate must be served. */
  readonly serve: (leaf: Leaf, authority: Certificate | undefined) => void
  /** Called for each step that this replica performed. */
  readonly recordEvent?: (event: CertificateEvent) => void
}

/** A Secret or bundle that was tampered with is repaired within this time. */
const intervalMs = 15_000
const firstIntervalMs = 1000
/** More than the longest sequence (authority, store, publish, issue, serve) with some conflicts. */
const maxSteps = 20

/** Performs steps until a certificate can be served. Conflicts are retried; other errors are thrown. */
export async function reconcileCertificates(
  options: CertificateControllerOptions,
  served: Leaf | undefined,
): Promise<Leaf> {
  for (let count = 0; count < maxSteps; count++) {
    const { observed, secret } = await observe(options, served)
    const step = planCertificates(observed)
    if (step.kind === 'serve') {
      const { leaf } = step
      const { authorities, trusted } = observed.keyring
      const authority = [...authorities, ...trusted].find((each) => hasSigned(each, leaf))
      if (leaf.pem !== served?.pem) options.serve(leaf, authority)
      return leaf
    }
    const isDone = await perform(options, step, secret)
    if (!isDone) continue
    const event = eventOf(step, observed)
    options.log[event.type === 'Warning' ? 'warn' : 'info']({ step: step.kind, reason: event.reason }, event.message)
    options.recordEvent?.(event)
  }
  throw new Error(`the certificates did not settle in ${maxSteps} steps`)
}

/** Retries until there is a certificate, because without one nothing can be served. Throws when the signal aborts. */
export async function reconcileFirst(options: CertificateControllerOptions, signal: AbortSignal): Promise<Leaf> {
  for (;;) {
    try {
      return await reconcileCertificates(options, undefined)
    } catch (error) {
      options.log.warn({ err: error }, 'no certificate yet; retrying')
      await sleep(options.clock, firstIntervalMs, signal)
    }
  }
}

/** Settles the certificates every 15 s until the signal aborts. Errors are logged and retried in the next round. */
export async function runCertificateController(
  options: CertificateControllerOptions,
  first: Leaf,
  signal: AbortSignal,
): Promise<void> {
  let served = first
  for (;;) {
    await sleep(options.clock, intervalMs, signal).catch(() => {})
    if (signal.aborted) return
    try {
      served = await reconcileCertificates(options, served)
    } catch (error) {
      options.log.warn({ err: error }, 'could not settle the certificates; retrying')
    }
  }
}

async function observe(
  { kube, clock, namespace, secretName, apiServiceNames, dnsNames }: CertificateControllerOptions,
  served: Leaf | undefined,
): Promise<{ observed: Observed; secret: Persisted<Secret> | undefined }> {
  const [secret, ...services] = await Promise.all([
    ifFound(kube.get(secrets, { namespace, name: secretName })),
    ...apiServiceNames.map((name) => ifFound(kube.get(apiServices, { name }))),
  ])
  const found = services.filter((service) => service !== undefined)
  const bundles = found.map(({ spec }) => readCertificates(decode(spec?.caBundle)))
  const keyring = readKeyring(secret?.data ?? {})
  const observed = { nowMs: clock.now(), dnsNames, keyring, bundles, hasSigned }
  return { observed: served === undefined ? observed : { ...observed, served }, secret }
}

/** False if other replicas wrote first. */
async function perform(
  options: CertificateControllerOptions,
  step: Exclude<Step, { kind: 'serve' }>,
  secret: Persisted<Secret> | undefined,
): Promise<boolean> {
  const nowMs = options.clock.now()
  switch (step.kind) {
    case 'create-authority': {
      const authorities = [...step.keep.authorities, await createAuthority(nowMs)]
      return store(options, { ...step.keep, authorities }, secret)
    }
    case 'store':
      return store(options, step.keyring, secret)
    case 'issue':
      return store(options, { ...step.keep, leaf: await issueLeaf(step.by, options.dnsNames, nowMs) }, secret)
    case 'publish': {
      const bundle = step.certificates.map(({ pem }) => pem).join('\n')
      const caBundle = encode(`${bundle}\n`)
      const published = await Promise.all(
        options.apiServiceNames.map((apiService) => publish(options.kube, apiService, caBundle)),
      )
      return published.includes(true)
    }
  }
}

/** Writes only if the Secret is unchanged since it was read. */
async function store(
  options: CertificateControllerOptions,
  keyring: Keyring,
  secret: Persisted<Secret> | undefined,
): Promise<boolean> {
  const { kube, namespace, secretName } = options
  const data = writeKeyring(keyring)
  return unlessConflict(
    secret === undefined
      ? kube.create(secrets, { metadata: { namespace, name: secretName }, type: 'Opaque', data })
      : kube.update(secrets, { ...secret, data }),
  )
}

async function publish(kube: KubeClient, name: string, caBundle: string): Promise<boolean> {
  const apiService = await ifFound(kube.get(apiServices, { name }))
  if (apiService === undefined || apiService.spec?.caBundle === caBundle) return false
  const body = [
    { op: 'test', path: '/metadata/resourceVersion', value: apiService.metadata.resourceVersion },
    { op: 'add', path: '/spec/caBundle', value: caBundle },
  ]
  return unlessConflict(kube.patch(apiServices, { name }, { type: 'json', body }))
}

function readKeyring(data: { readonly [key: string]: string }): Keyring {
  const all = readAuthorities(decode(data['ca.crt']), decode(data['ca.key']))
  const leaf = readLeaf(decode(data['tls.crt']), decode(data['tls.key']))
  return {
    authorities: all.filter(isAuthority).toSorted((a, b) => a.notAfter - b.notAfter),
    trusted: all.filter((certificate) => !isAuthority(certificate)),
    ...(leaf === undefined ? {} : { leaf }),
  }
}

function writeKeyring({ authorities, trusted, leaf }: Keyring): { [key: string]: string } {
  const lines = (texts: readonly string[]) => encode(texts.map((text) => `${text.trim()}\n`).join(''))
  return {
    'ca.crt': lines([...authorities, ...trusted].map(({ pem }) => pem)),
    'ca.key': lines(authorities.map(({ key }) => key)),
    ...(leaf === undefined ? {} : { 'tls.crt': lines([leaf.pem]), 'tls.key': lines([leaf.key]) }),
  }
}

const decode = (text = ''): string => Buffer.from(text, 'base64').toString('utf8')
const encode = (text: string): string => Buffer.from(text).toString('base64')

const ifFound = <T>(reading: Promise<T>): Promise<T | undefined> =>
  reading.catch((error: unknown) => {
    if (isNotFound(error)) return undefined
    throw error
  })

/** A failed `test` of a JSON patch is a 422, a concurrent write a 409: both are resolved by observing again. */
const unlessConflict = (writing: Promise<unknown>): Promise<boolean> =>
  writing.then(
    () => true,
    (error: unknown) => {
      if (isConflict(error) || isAlreadyExists(error) || isNotFound(error) || isInvalid(error)) return false
      throw error
    },
  )
