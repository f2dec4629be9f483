/**
 * Renders the bundled profile from libvirt's own description of a QEMU: `node launcher/profile/generate-profile.ts
 * FOLDER NAME`. FOLDER contains `capabilities/` (qemu_VERSION.xml and the domain capabilities for KVM and TCG) and
 * `firmware/` (descriptors by their paths on the host).
 */
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Accelerator, Capabilities } from '../../api/capabilities.ts'
import { readDescriptors } from './descriptors.ts'
import { profileOf } from './profile.ts'

const [folder = '', name = 'qemu-10-x86_64'] = process.argv.slice(2)
const files = readdirSync(join(folder, 'capabilities'))
const textOf = (suffix: string): string => {
  const file = files.find((one) => one.endsWith(suffix) && one.startsWith(suffix === '.xml' ? 'qemu_' : 'domain_'))
  return readFileSync(join(folder, 'capabilities', file ?? suffix), 'utf8')
}
/** A link that was packed as a file contains the path that it points to. */
const unpacked = (text: string): string =>
  text.startsWith('../') ? readFileSync(join(folder, 'firmware/etc/qemu/firmware', text.trim()), 'utf8') : text

const descriptors = await readDescriptors(join(folder, 'firmware'))
const generated = profileOf({
  qemu: textOf('.xml'),
  domains: { kvm: textOf('0.x86_64.xml'), qemu: textOf('-tcg.x86_64.xml') },
  firmware: new Map([...descriptors].map(([file, text]) => [file, unpacked(text)])),
})
/** The missing features of a CPU model depend on a node, and the bundled profile is for any node. */
const anyHost = ({ cpuModels, ...rest }: Accelerator): Accelerator => ({
  ...rest,
  cpuModels: cpuModels.map((model) => ({ ...model, blockers: [] })),
})
const { kvm, qemu } = generated.accelerators
const profile: Capabilities = {
  ...generated,
  accelerators: { ...(kvm && { kvm: anyHost(kvm) }), ...(qemu && { qemu: anyHost(qemu) }) },
  // The host of libvirt's own tests.
  host: { numaNodes: 4, pageSizes: [4, 2048, 1_048_576] },
}
const path = join(import.meta.dirname, '../../completion/profiles', `${name}.json`)
writeFileSync(path, `${JSON.stringify(profile, null, 2)}\n`)
