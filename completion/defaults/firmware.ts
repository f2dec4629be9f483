import type { Domain } from '../../api/domain/domain.ts'
import type { Firmware } from '../../api/capabilities.ts'
import { nvramDirectory } from '../../api/nvram-directory.ts'
import { machineType, type ImageCapabilities } from '../capabilities.ts'
import { isOn } from './reading.ts'
import { appendTo, fill, rule, type Context, type Rule, type Values } from './rule.ts'

type Os = NonNullable<Domain['os']>
type Loader = NonNullable<Os['loader']>

/** The firmware interface of the requested firmware, or of a loader's type. */
const interfaceOf = ({ firmware, loader }: Os): string | undefined => {
  if (firmware !== undefined) return firmware === 'efi' ? 'uefi' : firmware
  if (loader?.type === 'pflash') return 'uefi'
  return loader?.type === 'rom' ? 'bios' : undefined
}

export const loaderType = rule('loader-type', 'The type of a firmware image is `rom`.', ({ os }) =>
  os?.loader?.value !== undefined && os.firmware === undefined ? { os: { loader: { type: 'rom' } } } : undefined,
)

/** The requirements on a firmware: those of the domain, and the format if libvirt requires one. */
interface Request {
  readonly domain: Domain
  readonly os: Os
  readonly interface: string
  readonly loaderFormat: string | undefined
}

/**
 * The required format of the image: that of the loader, or else of the variable store. For a stored domain without
 * either, libvirt assumes raw, once the only format. For a new domain, the order of the descriptors decides.
 */
const formatOf = ({ firmware, loader, nvram }: Os, { isNew }: Context): string | undefined => {
  if (firmware === undefined) return loader?.format
  return loader?.format ?? nvram?.format ?? (isNew === true ? undefined : 'raw')
}

const hasStatedFeature = ({ firmwareSelection }: Os, name: string): boolean | undefined =>
  isOn(firmwareSelection?.features?.find((feature) => feature.name === name)?.enabled)

const matches = (firmware: Firmware, request: Request, capabilities: ImageCapabilities): boolean => {
  const { features } = firmware
  return (
    firmware.interfaces.includes(request.interface) &&
    runsOn(firmware, request.os, capabilities) &&
    (request.domain.features?.smm === undefined ||
      isOn(request.domain.features.smm.state) !== false ||
      !features.includes('requires-smm')) &&
    (isOn(request.domain.pm?.suspendToMem?.enabled) !== true || features.includes('acpi-s3')) &&
    (isOn(request.domain.pm?.suspendToDisk?.enabled) !== true || features.includes('acpi-s4')) &&
    (['secure-boot', 'enrolled-keys'] as const).every(
      (name) => (hasStatedFeature(request.os, name) ?? features.includes(name)) === features.includes(name),
    ) &&
    isOn(request.os.loader?.secure) !== !features.includes('requires-smm') &&
    hasMapping(firmware, request) &&
    encrypts(firmware, request.domain)
  )
}

const runsOn = ({ targets }: Firmware, { type }: Os, capabilities: ImageCapabilities): boolean => {
  const machine = machineType(capabilities, type?.machine ?? '')?.name ?? type?.machine ?? ''
  return targets.some(
    ({ architecture, machines }) =>
      architecture === (type?.arch === 'i686' ? 'i386' : type?.arch) && machines.some((glob) => isLike(machine, glob)),
  )
}

/** Descriptors use `*` at the end of a name only. */
const isLike = (name: string, glob: string): boolean =>
  glob.endsWith('*') ? name.startsWith(glob.slice(0, -1)) : name === glob

const encrypts = ({ features }: Firmware, { launchSecurity }: Domain): boolean => {
  if (launchSecurity?.type === 'sev') return features.includes('amd-sev')
  return launchSecurity?.type !== 'sev-snp' || features.includes('amd-sev-snp')
}

const hasMapping = ({ mapping }: Firmware, { os: { loader = {}, nvram }, loaderFormat }: Request): boolean => {
  if (mapping.device === 'memory') {
    return (
      (loader.type ?? 'rom') === 'rom' &&
      isOn(loader.readonly) !== false &&
      (loader.value ?? mapping.path) === mapping.path
    )
  }
  const { code } = mapping
  const isWanted = isOn(loader.stateless) === true ? mapping.mode === 'stateless' : mapping.mode === 'split'
  return (
    isWanted &&
    (loader.type ?? 'pflash') === 'pflash' &&
    isOn(loader.readonly) !== false &&
    (loaderFormat ?? code.format) === code.format &&
    (loader.value ?? code.path) === code.path &&
    (mapping.mode !== 'split' || (nvram?.template ?? mapping.variables.path) === mapping.variables.path)
  )
}

/** Whether the variable store is local, so that it can be created from a template. */
const isLocal = ({ nvram }: Os): boolean =>
  nvram?.type === undefined || nvram.type === 'file' || nvram.type === 'block' || nvram.type === 'dir'

const valuesOf = (firmware: Firmware, os: Os): Values<Domain> => {
  const { mapping, features } = firmware
  const isSecure = features.includes('requires-smm') && features.includes('secure-boot')
  const kind: 'efi' | 'bios' = firmware.interfaces.includes('uefi') ? 'efi' : 'bios'
  const loader: Values<Loader> =
    mapping.device === 'memory'
      ? { type: 'rom', value: mapping.path }
      : {
          readonly: true,
          ...(isSecure ? { secure: true } : {}),
          type: 'pflash',
          format: formatName(mapping.code.format),
          value: mapping.code.path,
        }
  const variables =
    mapping.device === 'flash' && mapping.mode === 'split' && isLocal(os) ? mapping.variables : undefined
  return {
    os: {
      firmware: kind,
      firmwareSelection: { features: [] },
      loader,
      ...(variables ? { nvram: { template: variables.path, templateFormat: formatName(variables.format) } } : {}),
    },
    ...(features.includes('requires-smm') ? { features: { smm: { state: true } } } : {}),
  }
}

const formatName = (format: string): 'raw' | 'qcow2' => (format === 'qcow2' ? 'qcow2' : 'raw')

/** Selects the first matching firmware in the order of the descriptors. */
const choose = (domain: Domain, context: Context): Firmware | undefined => {
  const { os } = domain
  const wanted = os && interfaceOf(os)
  if (!os || wanted === undefined) return undefined
  if (os.firmware === undefined && os.loader?.type !== 'pflash') return undefined
  const request: Request = { domain, os, interface: wanted, loaderFormat: formatOf(os, context) }
  return context.capabilities.firmware.find((firmware) => matches(firmware, request, context.capabilities))
}

/** The firmware of the node that meets all requirements of a complete domain; undefined if there is none. */
export const firmwareFor = (domain: Domain, capabilities: ImageCapabilities): Firmware | undefined =>
  choose(domain, { capabilities, entropy: { uid: '' } })

export const firmware: Rule = {
  name: 'firmware',
  description:
    'The firmware is that of the node’s first firmware descriptor with all requested features, and the domain records its features. An image that is set is looked up by its path.',
  *apply(domain, context) {
    const chosen = choose(domain, context)
    const { os } = domain
    if (!chosen || !os) return
    // The keys are in the variable store; the content of a store elsewhere is unknown.
    const names =
      isLocal(os) || chosen.mapping.device === 'memory'
        ? (['enrolled-keys', 'secure-boot'] as const)
        : (['secure-boot'] as const)
    yield fill(domain, valuesOf(chosen, os))
    for (const name of names) {
      if (hasStatedFeature(os, name) !== undefined || !os.firmwareSelection) continue
      const feature = { enabled: chosen.features.includes(name), name }
      yield appendTo(os.firmwareSelection, 'features', feature)
    }
  },
}

/** Images that predate descriptors, and their variable stores. */
const legacy: ReadonlyMap<string, string> = new Map([
  ['/usr/share/OVMF/OVMF_CODE.fd', '/usr/share/OVMF/OVMF_VARS.fd'],
  ['/usr/share/OVMF/OVMF_CODE.secboot.fd', '/usr/share/OVMF/OVMF_VARS.fd'],
])

export const legacyFirmware = rule(
  'firmware-legacy',
  'An image that predates firmware descriptors has its known template for the variable store.',
  ({ os }) => {
    const template = legacy.get(os?.loader?.value ?? '')
    const { readonly: isReadonly, stateless } = os?.loader ?? {}
    if (os?.loader?.type !== 'pflash' || template === undefined || os.loader.format === 'qcow2') return undefined
    if (isOn(isReadonly) === false || isOn(stateless) === true) return undefined
    return { os: { loader: { readonly: true }, nvram: { template, templateFormat: 'raw' } } }
  },
)

export const loaderFormat = rule('loader-format', 'The format of a firmware image is raw.', ({ os }, { isNew }) => {
  // libvirt stores no format for a ROM unless it selected the ROM earlier.
  if (os?.loader?.type === 'rom' && (isNew === true || os.firmware === undefined)) return undefined
  return os?.loader || os?.firmware !== undefined ? { os: { loader: { format: 'raw' } } } : undefined
})

export const nvram = rule(
  'nvram',
  'The variable store of a firmware that has one is a file that is named after the VM.',
  ({ os, name }) => {
    const loader = os?.loader
    if (loader?.type !== 'pflash' || loader.value === undefined || isOn(loader.readonly) !== true) return undefined
    // No firmware matches; libvirt reports it when the VM starts.
    if (os?.firmware !== undefined && os.firmwareSelection === undefined) return undefined
    if (isOn(loader.stateless) === true) return undefined
    const format = os?.nvram?.format ?? os?.nvram?.templateFormat ?? loader.format ?? 'raw'
    const isElsewhere = os?.nvram?.source !== undefined || os?.nvram?.type !== undefined
    const path = `${nvramDirectory}/${name ?? ''}_VARS.${format === 'qcow2' ? 'qcow2' : 'fd'}`
    return { os: { nvram: { format, ...(isElsewhere ? {} : { value: path }) } } }
  },
)
