import { readFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import type { ConnectionOptions } from 'node:tls'
import { systemClock } from './clock.ts'
import type { Clock } from './clock.ts'
import { hostPort } from './host-port.ts'

/** The credentials of a request to the API server. */
export interface Proof {
  readonly headers: Readonly<Record<string, string>>
  readonly tls: Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'passphrase' | 'rejectUnauthorized' | 'servername'>
}

/** The address of the API server, and the credentials for it. */
export interface Access {
  /** e.g. `https://10.96.0.1:443`, without a path. */
  readonly server: string
  /** The namespace of the context or the service account. */
  readonly namespace?: string
  /** Called before each request; cheap, since it caches what it read. */
  prove(): Promise<Proof>
}

/** Where the kubelet mounts a pod's service account. */
const serviceAccountDirectory = '/var/run/secrets/kubernetes.io/serviceaccount'

/** As in client-go: the kubelet replaces a token long before it expires, so a delay of a minute does no harm. */
const tokenLifeMs = 60_000

/**
 * Access of a pod by its service account. Token and CA are read again each minute. This does not use the client
 * library, which takes 90 MB of memory when it is imported: the handler runs on every node.
 */
export function podAccess(
  environment: Readonly<Record<string, string | undefined>>,
  options: { directory?: string; clock?: Clock } = {},
): Access {
  const { directory = serviceAccountDirectory, clock = systemClock } = options
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = environment
  if (!host || !port) throw new Error('not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set')
  let proof: Promise<Proof> | undefined
  let readAtMs = 0
  const read = async (): Promise<Proof> => {
    const [token, ca] = await Promise.all([readFile(`${directory}/token`, 'utf8'), readFile(`${directory}/ca.crt`)])
    return { headers: { authorization: `Bearer ${token.trim()}` }, tls: { ca } }
  }
  return {
    server: `https://${hostPort(host, port)}`,
    prove() {
      if (!proof || clock.monotonic() - readAtMs > tokenLifeMs) {
        readAtMs = clock.monotonic()
        proof = read().catch((error: unknown) => {
          proof = undefined
          throw new Error(`reading the service account in ${directory}`, { cause: error })
        })
      }
      return proof
    },
  }
}

/**
 * Access by a kubeconfig: the named file, or else the one that kubectl would use ($KUBECONFIG, ~/.kube/config). The
 * client library implements client certificates, tokens, token files, exec plugins and OpenID Connect; it is imported
 * only here, since that takes half a second.
 */
export async function kubeconfigAccess(options: { file?: string; context?: string } = {}): Promise<Access> {
  const { KubeConfig } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  try {
    if (options.file === undefined) config.loadFromDefault()
    else config.loadFromFile(options.file)
  } catch (error) {
    throw new Error(`kubeconfig${options.file === undefined ? '' : ` ${options.file}`} cannot be read`, {
      cause: error,
    })
  }
  if (options.context !== undefined) config.setCurrentContext(options.context)
  const cluster = config.getCurrentCluster()
  if (!cluster) {
    // The library returns undefined where a file names none, although its types exclude that.
    const context: string | undefined = config.getCurrentContext()
    throw new Error(`kubeconfig names ${context ? `no cluster for the context "${context}"` : 'no current context'}`)
  }
  // What the library returns if there is no file.
  if (cluster.server === 'http://localhost:8080' && !cluster.skipTLSVerify)
    throw new Error('there is no kubeconfig: set KUBECONFIG, or create ~/.kube/config')
  if (cluster.proxyUrl) throw new Error(`kubeconfig: proxy-url of cluster "${cluster.name}" is not supported`)
  const namespace = config.getContextObject(config.getCurrentContext())?.namespace
  return {
    server: cluster.server,
    ...(namespace ? { namespace } : {}),
    async prove() {
      const applied: RequestOptions = {}
      await config.applyToHTTPSOptions(applied)
      const { headers = {}, auth, ca, cert, key, passphrase, rejectUnauthorized, servername } = applied
      const basic = auth ? { authorization: `Basic ${Buffer.from(auth).toString('base64')}` } : {}
      return {
        headers: { ...lowerCase(headers), ...basic },
        tls: defined({ ca, cert, key, passphrase, rejectUnauthorized, servername }),
      }
    },
  }
}

/** Pods use their service account, all other processes a kubeconfig. */
export async function defaultAccess(environment: Readonly<Record<string, string | undefined>>): Promise<Access> {
  return environment['KUBERNETES_SERVICE_HOST'] && !environment['KUBECONFIG']
    ? podAccess(environment)
    : kubeconfigAccess()
}

function lowerCase(headers: object): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)]))
}

function defined(tls: { [K in keyof Proof['tls']]: Proof['tls'][K] | undefined }): Proof['tls'] {
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined))
}
