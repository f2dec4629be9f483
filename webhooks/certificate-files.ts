import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sleep } from '../runtime/clock.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import { readCertificates, readLeaf } from './authority.ts'
import type { Certificate, Leaf } from './certificates.ts'

/** The certificate that somebody else looks after, e.g. cert-manager, in a Secret that is mounted here. */
export interface CertificateFiles {
  /** With `tls.crt`, `tls.key` and, if there is one, `ca.crt`. */
  readonly directory: string
  readonly clock: Clock
  readonly log: Logger
  readonly serve: (leaf: Leaf, authority: Certificate | undefined) => void
}

/** The kubelet brings a changed Secret within a minute or so; to look again costs nothing. */
const intervalMs = 10_000
const firstIntervalMs = 1000

/** Waits until there is a certificate and its key. Throws when the signal comes. */
export async function firstFromFiles(files: CertificateFiles, signal: AbortSignal): Promise<Leaf> {
  for (;;) {
    const leaf = await serveFromFiles(files, undefined)
    if (leaf !== undefined) return leaf
    files.log.warn({ directory: files.directory }, 'there is no certificate with its key yet; trying again')
    await sleep(files.clock, firstIntervalMs, signal)
  }
}

/** Serves whatever comes, until the signal. A certificate and key that do not belong together are passed over: they change one after the other. */
export async function keepFromFiles(files: CertificateFiles, first: Leaf, signal: AbortSignal): Promise<void> {
  let served = first
  while (!signal.aborted) {
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
