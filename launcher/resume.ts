import type { Domain } from '../api/domain/domain.ts'
import type { Logger } from '../runtime/log.ts'
import type { Client } from './libvirt/client.ts'
import { type DiskError, type DomainRef, resumeDomain } from './libvirt/domain.ts'

interface ResumeOptions {
  readonly client: Client
  readonly log: Logger
  /** Whether these disks, by target, can be written again after they were full. */
  readonly hasRoom: (targets: readonly string[], domain: Domain) => Promise<boolean>
}

/**
 * Resumes a guest whose disks were full and have space again. QEMU pauses a guest whose write finds no space, so that
 * the guest sees no error, and repeats the write.
 * @param errors of the disks of the paused guest
 * @returns whether the state may have changed
 */
export async function resumeWithRoom(
  { client, log, hasRoom }: ResumeOptions,
  dom: DomainRef,
  domain: Domain,
  errors: readonly DiskError[],
): Promise<boolean> {
  const full = errors.filter(({ isFull }) => isFull).map(({ target }) => target)
  if (full.length === 0 || full.length < errors.length) return false
  try {
    if (!(await hasRoom(full, domain))) return false
    log.info({ disks: full }, 'there is space again; resuming the guest')
    await resumeDomain(client, dom)
  } catch (error) {
    log.warn({ err: error }, 'could not resume the guest')
  }
  return true
}
