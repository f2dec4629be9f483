import { existsSync, readFileSync } from 'node:fs'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Capabilities } from '../../api/capabilities.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { Client } from '../../launcher/libvirt/client.ts'
import { ConnectionLost, DeadlineExceeded, LibvirtError } from '../../launcher/libvirt/errors.ts'
import { queryProfile } from '../../launcher/profile/query.ts'
import { systemClock } from '../../runtime/clock.ts'
import { type Libvirtd, startLibvirtd } from './libvirtd.ts'

/** What libvirt answers for a domain: its completed XML, or why it refuses it. */
export type DefineResult =
  | { readonly outcome: 'taken'; readonly xml: string }
  | { readonly outcome: 'refused'; readonly message: string }

/** A real libvirt that defines domains, one at a time. */
export interface Oracle {
  /** The capabilities of its QEMU, as a node publishes them. */
  readonly capabilities: Capabilities
  /** @param isChecked whether to validate against libvirt's schema as well, as the launcher does; takes 10 ms more */
  define(xml: string, isChecked?: boolean): Promise<DefineResult>
  /**
   * Starts a domain that libvirt accepts, and destroys it. Returns why it did not start, because many things are
   * checked only at start.
   */
  start(xml: string): Promise<string | undefined>
  stop(): Promise<void>
}

/** Also removes a managed save and snapshots; the variable store may remain. */
const undefineFlags = 1 | 2 | 8
/** A daemon of a user keeps the files of its VMs in its own directory, one of the system in directories that we set. */
const ownFiles = /\/tmp\/run-\w+\/libvirt\/qemu\//g
const systemFiles = '/var/lib/libvirt/qemu/'
const secure = 1
const validate = 1
const schemaFault = 'failed to validate against schema'
/** The first define probes QEMU. */
const defineDeadlineMs = 60_000
const inactive = 2
const paused = 1

/** With a device node but without the kernel's KVM, libvirt would probe QEMU again for each domain, in vain. */
export const hasKvm = existsSync('/sys/class/misc/kvm/dev')

/** Of the addresses of this host's CPU. */
const addressBits = Number(/^address sizes\s*: (\d+) bits/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1] ?? 52)

/**
 * Without KVM on this host, libvirt refuses every domain of that type. It also refuses an emulated CPU with longer
 * addresses than this host's, whatever the domain is to run on.
 */
export const isComparable = ({ type, cpu }: Pick<Domain, 'type' | 'cpu'>): boolean =>
  (hasKvm || type !== 'kvm') && Number(cpu?.maxphysaddr?.bits ?? 0) <= addressBits

export async function startOracle(): Promise<Oracle> {
  const libvirtd = await startLibvirtd({ withKvm: hasKvm })
  const client = new Client({
    dial: () => dial(libvirtd.socket),
    uri: 'qemu:///session',
    clock: systemClock,
    onHint: () => {},
  })
  client.start()
  const daemon: Daemon = { client, libvirtd }
  const { capabilities } = await queryProfile(client, { cache: libvirtd.cache, root: libvirtd.rootfs })
  return {
    capabilities,
    define: async (xml, isChecked = true) => {
      if (!isChecked) return define(daemon, xml, 0)
      const checked = await define(daemon, xml, validate)
      if (checked.outcome === 'taken' || !checked.message.includes(schemaFault)) return checked
      // The schema gives no reason. libvirt without the schema does, unless only the schema refuses the domain.
      const plain = await define(daemon, xml, 0)
      return plain.outcome === 'refused' ? plain : checked
    },
    start: (xml) => start(client, xml),
    stop: async () => {
      client.close()
      await libvirtd.stop()
    },
  }
}

interface Daemon {
  readonly client: Client
  readonly libvirtd: Libvirtd
}

async function define({ client, libvirtd }: Daemon, xml: string, flags: number): Promise<DefineResult> {
  try {
    const { dom } = await client.mutate('domain_define_xml_flags', { xml, flags }, defineDeadlineMs)
    const { xml: text } = await client.mutate('domain_get_xml_desc', { dom, flags: secure | inactive })
    await client.mutate('domain_undefine_flags', { dom, flags: undefineFlags })
    if (typeof text !== 'string') throw new Error('no text where some is due')
    return { outcome: 'taken', xml: text.replaceAll(ownFiles, systemFiles) }
  } catch (error) {
    if (error instanceof LibvirtError) return { outcome: 'refused', message: error.message }
    // The client reconnects to the next daemon.
    if (error instanceof ConnectionLost) return { outcome: 'refused', message: 'libvirtd crashed' }
    if (error instanceof DeadlineExceeded) {
      await libvirtd.killDaemon()
      return { outcome: 'refused', message: 'libvirtd does not respond' }
    }
    throw error
  }
}

async function start(client: Client, xml: string): Promise<string | undefined> {
  const { dom } = await client.mutate('domain_define_xml_flags', { xml, flags: 0 }, defineDeadlineMs)
  try {
    await client.mutate('domain_create_with_flags', { dom, flags: paused }, defineDeadlineMs)
    await client.mutate('domain_destroy_flags', { dom, flags: 0 }, defineDeadlineMs)
    return undefined
  } catch (error) {
    if (error instanceof LibvirtError) return error.message
    throw error
  } finally {
    await client.mutate('domain_undefine_flags', { dom, flags: undefineFlags })
  }
}

function dial(path: string): Promise<Duplex> {
  return new Promise((resolve, reject) => {
    const socket = connect(path)
    socket.once('connect', () => resolve(socket))
    socket.once('error', reject)
  })
}
