import { closed, string } from './schema.ts'
import type { Schema, SchemasOf } from './schema.ts'

/** Where the webhooks reach the guests of a node: a TLS server of its handler. */
export interface SessionEndpoint {
  /** `10.0.0.1:8444` or `[fd00::1]:8444`. */
  readonly address: string
  /** The SHA-256 digest of its self-signed certificate: pairs of hexadecimal digits, separated by colons. */
  readonly certificateSha256: string
}

export const sessionEndpointSchema: Schema = {
  ...closed(
    'Where the webhooks reach the guests of the node, for sessions such as the console.',
    {
      address: string("The address and port of the handler's TLS server."),
      certificateSha256: string('The SHA-256 digest of its certificate.'),
    } satisfies SchemasOf<SessionEndpoint>,
    ['address', 'certificateSha256'],
  ),
  // Only both together are of use: field managers own and remove them as one.
  'x-kubernetes-map-type': 'atomic',
}
