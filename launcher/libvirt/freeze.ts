import type { Connection } from './connection.ts'
import type { DomainRef } from './domain.ts'

/**
 * How long libvirt waits for the agent: before its file systems are frozen, the guest writes what it has cached. The
 * kernel of a guest refuses nothing in this time; it only takes long on a slow disk.
 */
const freezeTimeoutSeconds = 20
/** libvirt first synchronizes with the agent, which can take as long again. */
const deadlineMs = 45_000

/**
 * Freezes the file systems of the guest. Returns how many.
 * @throws LibvirtError if the agent does not answer or cannot freeze them; ConnectionLost, DeadlineExceeded
 */
export const freezeGuest = (connection: Pick<Connection, 'call'>, dom: DomainRef): Promise<number> =>
  askFor(connection, dom, 'domain_fsfreeze')

/** Thaws the file systems of the guest. Returns how many were frozen. @throws as `freezeGuest` does */
export const thawGuest = (connection: Pick<Connection, 'call'>, dom: DomainRef): Promise<number> =>
  askFor(connection, dom, 'domain_fsthaw')

async function askFor(
  connection: Pick<Connection, 'call'>,
  dom: DomainRef,
  what: 'domain_fsfreeze' | 'domain_fsthaw',
): Promise<number> {
  await connection.call('domain_agent_set_response_timeout', { dom, timeout: freezeTimeoutSeconds, flags: 0 })
  const { filesystems } = await connection.call(what, { dom, mountpoints: [], flags: 0 }, deadlineMs)
  return typeof filesystems === 'number' ? filesystems : 0
}
