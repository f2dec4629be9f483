/**
 * Renders a profile from libvirt's own description of a QEMU: `node completion/profiles/generate-profile.ts FOLDER NAME`, where FOLDER has
 * `capabilities/` (qemu_VERSION.xml and the domain capabilities for pc, q35 and TCG) and `firmware/` (descriptors by their paths on the host).
 */
import { readFileSync, readdirSync, existsSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { readXml } from '../../api/domain/sax.ts'
import type { Accelerator, Capabilities, CpuModel, Firmware, HostModel, MachineType } from '../capabilities.ts'
import { readFirmware } from './firmware.ts'

interface Node {
  readonly name: string
  readonly attributes: { readonly [name: string]: string }
  readonly children: Node[]
  text: string
}

const parse = (file: string): Node => {
  const stack: Node[] = [{ name: '', attributes: {}, children: [], text: '' }]
  const top = (): Node => {
    const last = stack.at(-1)
    if (!last) throw new Error(`${file}: closed more often than opened`)
    return last
  }
  const fault = readXml(readFileSync(file), {
    open: (tag) => {
      const attributes = Object.fromEntries(Object.values(tag.attributes).map(({ name, value }) => [name, value]))
      const node: Node = { name: tag.name, attributes, children: [], text: '' }
      top().children.push(node)
      stack.push(node)
    },
    close: () => {
      stack.pop()
    },
    text: (text) => {
      top().text += text.trim()
    },
  })
  if (fault) throw new Error(`${file}:${fault.line}: ${fault.message}`)
  return top()
}

/** Every element below `node` that is reached by these names. */
const find = (node: Node, ...names: string[]): Node[] => {
  const [first, ...rest] = names
  if (first === undefined) return [node]
  return node.children.filter(({ name }) => name === first).flatMap((child) => find(child, ...rest))
}

const machine = ({ attributes }: Node): MachineType => ({
  name: attributes['name'] ?? '',
  ...(attributes['alias'] === undefined ? {} : { alias: attributes['alias'] }),
  ...(attributes['default'] === 'yes' ? { isDefault: true } : {}),
  maxCpus: Number(attributes['maxCpus']),
  ...(attributes['defaultCPU'] === undefined ? {} : { cpu: attributes['defaultCPU'].replace(/-x86_64-cpu$/, '') }),
  ...(attributes['deprecated'] === 'yes' ? { isDeprecated: true } : {}),
  hasAcpi: attributes['acpi'] === 'yes',
  ...(attributes['hotplugCpus'] === 'yes' ? { canHotplugCpus: true } : {}),
  ...(attributes['numaMemSupported'] === 'yes' ? { hasLegacyNumaMemory: true } : {}),
})

const accelerator = (domainCapabilities: Node): Accelerator => {
  const modes = find(domainCapabilities, 'domainCapabilities', 'cpu', 'mode')
  const mode = (name: string) => modes.filter(({ attributes }) => attributes['name'] === name)
  const blockers = new Map(
    mode('custom')
      .flatMap((custom) => find(custom, 'blockers'))
      .map((one) => [one.attributes['model'], find(one, 'feature').map(({ attributes }) => attributes['name'] ?? '')]),
  )
  const cpuModels = mode('custom')
    .flatMap((custom) => find(custom, 'model'))
    .map(({ text, attributes: { vendor, canonical } }): CpuModel => ({
      name: text,
      ...(vendor === undefined || vendor === 'unknown' ? {} : { vendor }),
      ...(canonical === undefined ? {} : { canonical }),
      blockers: blockers.get(text) ?? [],
    }))
  const [host] = mode('host-model')
  return { cpuModels, ...(host === undefined ? {} : { hostModel: hostModel(host) }) }
}

const hostModel = (mode: Node): HostModel => {
  const [vendor] = find(mode, 'vendor')
  return {
    model: find(mode, 'model')[0]?.text ?? '',
    ...(vendor ? { vendor: vendor.text } : {}),
    features: find(mode, 'feature').map(({ attributes: { name = '', policy = '' } }) => ({ name, policy })),
  }
}

const words = (domainCapabilities: Node): [string, string[]][] =>
  find(domainCapabilities, 'domainCapabilities', 'devices').flatMap((devices) =>
    devices.children.flatMap((device) =>
      find(device, 'enum').map((one): [string, string[]] => [
        `${device.name}.${one.attributes['name']}`,
        find(one, 'value').map(({ text }) => text),
      ]),
    ),
  )

/** A file in a later folder hides one of the same name in an earlier one; an empty file hides it altogether. */
const firmware = (root: string): Firmware[] => {
  const files = new Map<string, string>()
  for (const folder of ['usr/share/qemu/firmware', 'etc/qemu/firmware']) {
    const path = join(root, folder)
    for (const name of existsSync(path) ? readdirSync(path) : []) files.set(name, join(path, name))
  }
  return [...files]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([, path]) => {
      const text = contentOf(path)
      return text === '' ? [] : readFirmware(text)
    })
}

/** A link that was packed as a file holds the path it points to. */
const contentOf = (path: string): string => {
  const text = readFileSync(path, 'utf8')
  return text.startsWith('../') ? contentOf(join(dirname(path), text.trim())) : text
}

const [folder = '', name = 'qemu-10-x86_64'] = process.argv.slice(2)
const [qemuFile = ''] = readdirSync(join(folder, 'capabilities')).filter((file) => file.startsWith('qemu_'))
const qemu = parse(join(folder, 'capabilities', qemuFile))
const version = qemuFile.replace(/^qemu_|\.xml$/g, '')
const domainFile = (suffix: string) => parse(join(folder, 'capabilities', `domain_qemu_${version}${suffix}.x86_64.xml`))
const machines = find(qemu, 'qemuCaps', 'machine')
const profile: Capabilities = {
  name,
  architecture: 'x86_64',
  version,
  emulator: find(qemu, 'qemuCaps', 'emulator')[0]?.text ?? '',
  machines: machines.filter(({ attributes }) => attributes['type'] === 'kvm').map(machine),
  devices: find(qemu, 'qemuCaps', 'flag').map(({ attributes }) => attributes['name'] ?? ''),
  accelerators: { kvm: accelerator(domainFile('')), qemu: accelerator(domainFile('-tcg')) },
  hyperv: find(qemu, 'qemuCaps', 'hypervCapabilities', 'cap').map(({ attributes }) => attributes['name'] ?? ''),
  // What libvirt's own tests take for the host.
  host: { numaNodes: 4, pageSizes: [4, 2048, 1_048_576] },
  words: Object.fromEntries(words(domainFile(''))),
  firmware: firmware(join(folder, 'firmware')),
}
writeFileSync(join(import.meta.dirname, `${name}.json`), `${JSON.stringify(profile, null, 2)}\n`)
