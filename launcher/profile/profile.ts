import type { Accelerator, Capabilities, CpuModel, Firmware, HostModel, MachineType } from '../../api/capabilities.ts'
import { type Element, find, readElement } from './element.ts'
import { create } from 'xmlbuilder2'
import { readFirmware } from './firmware.ts'

/** libvirt's descriptions of its QEMU, in libvirt's XML. */
interface ProfileSources {
  /** libvirt's cache file with the capabilities of a QEMU: `<qemuCaps>`. The API has no list of devices. */
  readonly qemu: string
  /** The results of virConnectGetDomainCapabilities for the default machine type. */
  readonly domains: { readonly kvm?: string; readonly qemu: string }
  /** The CPU of mode host-model under KVM with all of its features, as `<cpu>`; if absent, they are unknown. */
  readonly cpu?: string
  /** The result of virConnectGetCapabilities; if absent, the host is unknown. */
  readonly host?: string
  /** The texts of firmware descriptors by file name; an empty text hides one. */
  readonly firmware: ReadonlyMap<string, string>
}

/** Features that rules check; unsupported if libvirt does not list them. */
const checkedWords = ['video.modelType', 'tpm.backendModel', 'tpm.backendVersion']

/** The profile of a node, from the descriptions of its libvirt. */
export function profileOf(sources: ProfileSources): Capabilities {
  const qemu = readElement(sources.qemu)
  const domains = { qemu: readElement(sources.domains.qemu), ...optional('kvm', sources.domains.kvm, readElement) }
  const type = domains.kvm ? 'kvm' : 'tcg'
  return {
    architecture: 'x86_64',
    version: versionText(Number(find(qemu, 'qemuCaps', 'version')[0]?.text)),
    emulator: find(qemu, 'qemuCaps', 'emulator')[0]?.text ?? '',
    machines: byName(
      find(qemu, 'qemuCaps', 'machine')
        .filter(({ attributes }) => attributes['type'] === type)
        .map(machine),
    ),
    devices: namesOf(find(qemu, 'qemuCaps', 'flag')).toSorted(),
    accelerators: {
      ...optional('kvm', domains.kvm, (kvm) => ({
        ...accelerator(kvm),
        ...optional('cpuFeatures', sources.cpu, featuresOf),
      })),
      qemu: accelerator(domains.qemu),
    },
    hyperv: namesOf(find(qemu, 'qemuCaps', 'hypervCapabilities', 'cap')).toSorted(),
    words: words(domains.kvm ?? domains.qemu),
    ...optional('host', sources.host, (host) => hostOf(readElement(host))),
    firmware: firmware(sources.firmware),
  }
}

const optional = <K extends string, T, R>(
  key: K,
  value: T | undefined,
  of: (value: T) => R,
): { readonly [P in K]?: R } => (value === undefined ? {} : ({ [key]: of(value) } as { readonly [P in K]?: R }))

const namesOf = (elements: readonly Element[]): string[] =>
  elements.map(({ attributes }) => attributes['name'] ?? '').filter((name) => name !== '')

const byName = <T extends { readonly name: string }>(list: readonly T[]): T[] =>
  list.toSorted((a, b) => (a.name < b.name ? -1 : 1))

/** libvirt's version number, with three decimal digits per part: 10000013 → 10.0.13. */
export const versionText = (number: number): string =>
  [number / 1_000_000, (number / 1000) % 1000, number % 1000].map(Math.floor).join('.')

const machine = ({ attributes }: Element): MachineType => ({
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

function accelerator(domain: Element): Accelerator {
  const modes = find(domain, 'domainCapabilities', 'cpu', 'mode')
  const mode = (name: string) =>
    modes.filter(({ attributes }) => attributes['name'] === name && attributes['supported'] === 'yes')
  const blockers = new Map(
    mode('custom')
      .flatMap((custom) => find(custom, 'blockers'))
      .map((one) => [one.attributes['model'], namesOf(find(one, 'feature')).toSorted()]),
  )
  const cpuModels = mode('custom')
    .flatMap((custom) => find(custom, 'model'))
    .map(({ text, attributes: { vendor, canonical } }): CpuModel => ({
      name: text,
      ...(vendor === undefined || vendor === 'unknown' ? {} : { vendor }),
      ...(canonical === undefined ? {} : { canonical }),
      blockers: blockers.get(text) ?? [],
    }))
  return { cpuModels: byName(cpuModels), ...optional('hostModel', mode('host-model')[0], hostModel) }
}

/** The features that a CPU has, by name. */
const featuresOf = (cpu: string): string[] =>
  namesOf(
    find(readElement(cpu), 'cpu', 'feature').filter(({ attributes }) => attributes['policy'] !== 'disable'),
  ).toSorted()

/** The CPU of mode host-model as a `<cpu>` element, from domain capabilities; undefined if the mode is unsupported. */
export function hostCpuXml(domain: string): string | undefined {
  const modes = find(readElement(domain), 'domainCapabilities', 'cpu', 'mode')
  const host = modes.find(({ attributes }) => attributes['name'] === 'host-model' && attributes['supported'] === 'yes')
  if (host === undefined) return undefined
  const { model, vendor, features } = hostModel(host)
  const cpu = create().ele('cpu', { mode: 'custom', match: 'exact' })
  cpu.ele('model').txt(model)
  if (vendor !== undefined) cpu.ele('vendor').txt(vendor)
  for (const { name, policy } of features) cpu.ele('feature', { name, policy })
  return cpu.toString()
}

function hostModel(mode: Element): HostModel {
  const [vendor] = find(mode, 'vendor')
  const features = find(mode, 'feature').map(({ attributes: { name = '', policy = '' } }) => ({ name, policy }))
  return {
    model: find(mode, 'model')[0]?.text ?? '',
    ...(vendor ? { vendor: vendor.text } : {}),
    features: byName(features),
  }
}

function words(domain: Element): Capabilities['words'] {
  const found = find(domain, 'domainCapabilities', 'devices').flatMap((devices) =>
    devices.children.flatMap((device) =>
      find(device, 'enum').map((one): [string, string[]] => [
        `${device.name}.${one.attributes['name']}`,
        find(one, 'value')
          .map(({ text }) => text)
          .toSorted(),
      ]),
    ),
  )
  const nothing = checkedWords.map((subject): [string, string[]] => [subject, []])
  return Object.fromEntries([...new Map([...nothing, ...found])].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

function hostOf(capabilities: Element): NonNullable<Capabilities['host']> {
  const [host] = find(capabilities, 'capabilities', 'host')
  if (host === undefined) return {}
  return {
    numaNodes: find(host, 'topology', 'cells', 'cell').length,
    pageSizes: find(host, 'cpu', 'pages')
      .map(({ attributes }) => Number(attributes['size']))
      .toSorted((a, b) => a - b),
  }
}

const firmware = (texts: ReadonlyMap<string, string>): Firmware[] =>
  byName([...texts].flatMap(([name, text]) => (text === '' ? [] : readFirmware(name, text))))
