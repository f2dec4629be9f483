import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sleep } from '../../runtime/clock.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Logger } from '../../runtime/log.ts'
import { readCertificates, readLeaf } from './authority.ts'
import type { Certificate, Leaf } from './plan.ts'

/** A certificate that another party, such as cert-manager, issues and renews, in a mounted Secret. */
export interface CertificateFiles {
  /** Contains `tls.crt`, `tls.key` and optionally `ca.crt`. */
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
  readonly serve: (leaf: Leaf, authority: Certificate | undefined) => void
}

/** The kubelet updates a mounted Secret within about a minute; reading the files costs nothing. */
const intervalMs = 10_000
const firstIntervalMs = 1000

/** Waits until a certificate and its key exist. Throws when the signal aborts. */
export async function firstFromFiles(files: CertificateFiles, signal: AbortSignal): Promise<Leaf> {
  for (;;) {
    const leaf = await serveFromFiles(files, undefined)
    if (leaf !== undefined) return leaf
    files.log.warn({ directory: files.directory }, 'no certificate with its key yet; retrying')
    await sleep(files.clock, firstIntervalMs, signal)
  }
}

/**
 * Serves each new certificate until the signal aborts. A certificate and key that do not match are ignored: the two
 * files change one after the other.
 */
export async function keepFromFiles(files: CertificateFiles, first: Leaf, signal: AbortSignal): Promise<void> {
  let served = first
  for (;;) {
    await sleep(files.clock, intervalMs, signal).catch(() => {})
    if (signal.aborted) return
    served = (await serveFromFiles(files, served)) ?? served
  }
}

async function serveFromFiles({ directory, serve }: CertificateFiles, served: Leaf | undefined) {
  const read = (name: string) => readFile(join(directory, name), 'utf8').catch(() => '')
  const [certificate, key, authorities] = await Promise.all(['tls.crt', 'tls.key', 'ca.crt'].map(read))
  const leaf = readLeaf(certificate ?? '', key ?? '')
  if (leaf === undefined || leaf.pem === served?.pem) return leaf
  serve(
    leaf,
    readCertificates(authorities ?? '').find(({ subject }) => subject === leaf.issuer),
  )
  return leaf
}
