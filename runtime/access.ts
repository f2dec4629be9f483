import { readFile } from 'node:fs/promises'
import type { RequestOptions } from 'node:https'
import type { ConnectionOptions } from 'node:tls'
import type { Cluster } from '@kubernetes/client-node'
import { systemClock } from './clock.ts'
import type { Clock } from './clock.ts'
import { hostPort } from './host-port.ts'
import type { KubeconfigPlace } from './kubeconfig.ts'

/** The credentials of a request to the API server. */
export interface Proof {
  readonly headers: Readonly<Record<string, string>>
  readonly tls: Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'passphrase' | 'rejectUnauthorized' | 'servername'>
}

/** The address of the API server, and the credentials for it. */
export interface Access {
  /**
   * e.g. `https://10.96.0.1:443`. It can have a path, as of a proxy that serves several clusters, below which every
   * request is; it never ends with a slash.
   */
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
  const read = async (): Promise<Proof> => {
    try {
      const [token, ca] = await Promise.all([readFile(`${directory}/token`, 'utf8'), readFile(`${directory}/ca.crt`)])
      return { headers: { authorization: `Bearer ${token.trim()}` }, tls: { ca } }
    } catch (error) {
      throw new Error(`reading the service account in ${directory}`, { cause: error })
    }
  }
  return { server: `https://${hostPort(host, port)}`, prove: readEachMinute(read, clock) }
}

/** What `read` resolved with last: as in client-go, a file that is missing for a moment does no harm. */
function readEachMinute<T>(read: () => Promise<T>, clock: Clock): () => Promise<T> {
  let last: Promise<T> | undefined
  let readAtMs = 0
  return () => {
    if (!last || clock.monotonic() - readAtMs > tokenLifeMs) {
      const before = last
      readAtMs = clock.monotonic()
      last = read().catch((error: unknown) => {
        last = before
        if (before !== undefined) return before
        throw error
      })
    }
    return last
  }
}

/**
 * Access by a kubeconfig: the named file, or else the one that kubectl would use ($KUBECONFIG, ~/.kube/config). The
 * client library implements client certificates, tokens, exec plugins and OpenID Connect; it is imported only here, since
 * that takes half a second. A token file is read again each minute.
 */
export async function kubeconfigAccess(
  options: KubeconfigPlace & { context?: string; clock?: Clock },
): Promise<Access> {
  const { readKubeconfig } = await import('./kubeconfig.ts')
  const { config, users } = readKubeconfig(options)
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
  const user = users.find(({ name }) => name === config.getCurrentUser()?.name)
  const fileToken = user?.tokenFile === undefined ? undefined : tokenReader(user.tokenFile, user.token, options.clock)
  return {
    server: serverOf(cluster),
    ...(namespace ? { namespace } : {}),
    async prove() {
      const applied: RequestOptions = {}
      const token = await fileToken?.()
      await config.applyToHTTPSOptions(applied)
      const { headers = {}, auth, ca, cert, key, passphrase, rejectUnauthorized, servername } = applied
      const basic = auth ? { authorization: `Basic ${Buffer.from(auth).toString('base64')}` } : {}
      const bearer = token === undefined ? {} : { authorization: `Bearer ${token}` }
      return {
        headers: { ...lowerCase(headers), ...bearer, ...basic },
        tls: defined({ ca, cert, key, passphrase, rejectUnauthorized, servername }),
      }
    },
  }
}

/** As in client-go, a query counts for nothing; nor do a user and a password, which messages would show. */
function serverOf({ name, server }: Pick<Cluster, 'name' | 'server'>): string {
  const url = URL.parse(server)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new Error(`kubeconfig: the server of cluster "${name}" must be a URL such as https://10.0.0.1:6443`)
  for (const part of ['search', 'hash', 'username', 'password'] as const) url[part] = ''
  return url.href.replace(/\/+$/, '')
}

/** The token in a file. As in client-go, it takes precedence over `token`, which is used while the file has none. */
function tokenReader(file: string, token: string | undefined, clock: Clock = systemClock): () => Promise<string> {
  return readEachMinute(async () => {
    try {
      const read = (await readFile(file, 'utf8')).trim()
      if (read === '') throw new Error('the file is empty')
      return read
    } catch (error) {
      if (token) return token
      throw new Error(`reading the token in ${file}`, { cause: error })
    }
  }, clock)
}

/** Pods use their service account, all other processes a kubeconfig. */
export async function defaultAccess(environment: Readonly<Record<string, string | undefined>>): Promise<Access> {
  return environment['KUBERNETES_SERVICE_HOST'] && !environment['KUBECONFIG']
    ? podAccess(environment)
    : kubeconfigAccess({ environment })
}

function lowerCase(headers: object): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)]))
}

function defined(tls: { [K in keyof Proof['tls']]: Proof['tls'][K] | undefined }): Proof['tls'] {
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined))
}
