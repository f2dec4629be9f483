import { networkInterfaces } from 'node:os'
import { parseAllDocuments } from 'yaml'
import { run } from '../../cluster/command.ts'
import { eventually } from '../until.ts'
import type { TestApiServer } from './apiserver.ts'

export const system = 'virtset-system'

/** By the ports of a pod. */
const serviceOf = {
  webhooks: 'virtset-webhooks',
  subresources: 'virtset-subresources',
  sessions: 'virtset-sessions',
} as const
export const services = Object.values(serviceOf)
export type Ports = { readonly [port in keyof typeof serviceOf]: number }

/** How the API server reaches webhooks on this host: as in a cluster, through its aggregator and Services. */
export interface WebhookService {
  /** Also routes to `ports` of this host. */
  lead(name: string, ports: Ports): Promise<void>
  withdraw(name: string): Promise<void>
  /** Resolves when the aggregator forwards requests to the Services. */
  available(): Promise<void>
}

/**
 * Applies the manifests of the webhooks without the Deployment and objects for its pods. `caBundle` is a PEM
 * certificate; without it the webhooks must publish their own.
 */
export async function installWebhookService(api: TestApiServer, caBundle?: string): Promise<WebhookService> {
  const kubectl = (rest: string[], input?: string) =>
    run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest], input === undefined ? {} : { input })
  await kubectl(['apply', '-f', '-'], withoutPods(await kubectl(['kustomize', 'manifests/webhooks']), caBundle))
  return {
    async lead(name, { webhooks, subresources, sessions }) {
      const items = [
        endpointSlice(name, 'webhooks', webhooks),
        endpointSlice(name, 'subresources', subresources),
        endpointSlice(name, 'sessions', sessions),
      ]
      await kubectl(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
    },
    async withdraw(name) {
      const slices = services.map((service) => `${service}-${name}`)
      await kubectl(['delete', 'endpointslice', '-n', system, ...slices, '--ignore-not-found'])
    },
    async available() {
      const groups = ['admission', 'subresources', 'sessions']
      const names = groups.map((group) => `apiservice/v1alpha1.${group}.virtset.io`)
      await kubectl(['wait', ...names, '--for=condition=Available', '--timeout=180s'])
      // The aggregator learns of this condition like everybody else, by a watch, and responds with 503 before.
      for (const group of groups) {
        const path = `/apis/${group}.virtset.io/v1alpha1`
        await eventually(`${path} is forwarded`, () => kubectl(['get', '--raw', path]))
      }
    },
  }
}

interface Document {
  readonly kind: string
  readonly spec?: { selector?: object; caBundle?: string }
}

/** No controller maintains endpoints here. */
function withoutPods(manifests: string, caBundle: string | undefined): string {
  const used = ['Service', 'APIService', 'MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration']
  const items = parseAllDocuments(manifests)
    .map((document): Document => document.toJS())
    .filter(({ kind }) => used.includes(kind))
  for (const { kind, spec } of items) {
    if (kind === 'Service') delete spec?.selector
    if (kind === 'APIService' && spec && caBundle !== undefined)
      spec.caBundle = Buffer.from(caBundle).toString('base64')
  }
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items })
}

/** An address of this host: the API server accepts no endpoint on the loopback device. */
export function ownAddress(): string {
  const found = Object.values(networkInterfaces())
    .flat()
    .find((one) => one?.family === 'IPv4' && !one.internal)
  if (found === undefined) throw new Error('this machine has no address but those of the loopback device')
  return found.address
}

const endpointSlice = (name: string, portName: keyof typeof serviceOf, port: number) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: {
    name: `${serviceOf[portName]}-${name}`,
    namespace: system,
    labels: { 'kubernetes.io/service-name': serviceOf[portName] },
  },
  addressType: 'IPv4',
  endpoints: [{ addresses: [ownAddress()], conditions: { ready: true, serving: true, terminating: false } }],
  ports: [{ name: portName, port, protocol: 'TCP' }],
})
