import type { LibvirtProfile } from '../../api/node-profile.ts'
import { readCapabilities } from '../capabilities-cache.ts'
import type { Client } from '../libvirt/client.ts'
import { LibvirtError, ProtocolError } from '../libvirt/errors.ts'
import { errorCodes } from '../libvirt/protocol.ts'
import type { Value } from '../libvirt/xdr.ts'
import { readDescriptors } from './descriptors.ts'
import { hostCpuXml, profileOf, versionText } from './profile.ts'

/** The first call makes libvirt start QEMU twice for each accelerator: 2 to 5 s on a busy node. */
const deadlineMs = 60_000

/**
 * Reads the capabilities of a libvirtd's QEMU.
 * @param at `cache`: libvirtd's XDG_CACHE_HOME; `root`: the path of its root directory in this process
 */
export async function queryProfile(
  client: Pick<Client, 'read'>,
  at: { readonly cache: string; readonly root: string },
): Promise<LibvirtProfile> {
  const { capabilities: host } = await client.read('connect_get_capabilities', {}, deadlineMs)
  const { lib_ver: version } = await client.read('connect_get_lib_version', {})
  const domain = async (virttype: 'kvm' | 'qemu') => {
    const args = { emulatorbin: null, arch: 'x86_64', machine: null, virttype, flags: 0 }
    return textOf((await client.read('connect_get_domain_capabilities', args, deadlineMs)).capabilities)
  }
  const qemu = await domain('qemu')
  const kvm = await domain('kvm').catch((error: unknown) => {
    // Without /dev/kvm this QEMU does not have the accelerator.
    if (error instanceof LibvirtError && error.code === errorCodes.invalidArgument) return undefined
    throw error
  })
  const cpu = kvm === undefined ? undefined : await hostCpu(client, kvm)
  const capabilities = profileOf({
    ...(cpu === undefined ? {} : { cpu }),
    qemu: (await readCapabilities(at.cache)).text,
    domains: { qemu, ...(kvm === undefined ? {} : { kvm }) },
    host: textOf(host),
    firmware: await readDescriptors(at.root),
  })
  return { libvirtVersion: versionText(Number(version)), capabilities }
}

/** VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES. */
const expandFeatures = 1

/** Domain capabilities list only the differences from the model. */
async function hostCpu(client: Pick<Client, 'read'>, domain: string): Promise<string | undefined> {
  const host = hostCpuXml(domain)
  if (host === undefined) return undefined
  const { cpu } = await client.read(
    'connect_baseline_hypervisor_cpu',
    { emulator: null, arch: 'x86_64', machine: null, virttype: 'kvm', xmlcp_us: [host], flags: expandFeatures },
    deadlineMs,
  )
  return textOf(cpu)
}

function textOf(value: Value): string {
  if (typeof value !== 'string') throw new ProtocolError('the reply has no text')
  return value
}
