import { hash } from 'node:crypto'
import type { Domain } from '../../api/domain/domain.ts'
import { fill, list, rule, type Addition, type Context, type Rule } from './rule.ts'

/** Pseudorandom hexadecimal digits, equal for the same request and purpose. */
const draw = ({ entropy: { uid } }: Context, purpose: string): string => hash('sha256', `${uid}\n${purpose}`, 'hex')

const withDashes = (digits: string): string =>
  [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join('-')

export const drawUuid = (context: Context, purpose: string): string => uuidOf(draw(context, purpose))

/** A UUID of version 4, as libvirt generates. */
const uuidOf = (digits: string): string => {
  const variant = ((Number.parseInt(digits.charAt(16), 16) & 0x3) | 0x8).toString(16)
  return withDashes(`${digits.slice(0, 12)}4${digits.slice(13, 16)}${variant}${digits.slice(17, 32)}`)
}

/** That of QEMU and libvirt. */
const macPrefix = '52:54:00:'

/** Whether a MAC address can be one that was drawn. */
export const mayBeDrawn = (mac: string | undefined): boolean => mac?.startsWith(macPrefix) === true

/** `attempt` is incremented after a clash. */
export const drawMac = (context: Context, index: number, attempt = 0): string => {
  const digits = draw(context, `mac ${index} ${attempt}`)
  return `${macPrefix}${digits.slice(0, 2)}:${digits.slice(2, 4)}:${digits.slice(4, 6)}`
}

/** The UUID that SMBIOS shows to the guest, found as libvirt does: the first of the last table that has one. */
const smbiosUuid = ({ sysinfos = [] }: Domain): string | undefined => {
  const entries = sysinfos
    .filter(({ type }) => type === 'smbios')
    .flatMap(({ system }) => system?.entries?.find(({ name }) => name === 'uuid') ?? [])
  const digits = entries.at(-1)?.value?.replaceAll('-', '').toLowerCase() ?? ''
  return /^[0-9a-f]{32}$/.test(digits) ? withDashes(digits) : undefined
}

export const uuid = rule(
  'uuid',
  'The UUID is the one that the VM’s SMBIOS shows, or else derived from the request.',
  (domain, context) =>
    domain.uuid
      ? undefined
      : { uuid: smbiosUuid(domain) ?? context.entropy.previous?.uuid ?? drawUuid(context, 'uuid') },
)

export const generationId = rule(
  'genid',
  'An empty generation ID is replaced by a generated one.',
  ({ genid }, context) => (genid === '' ? { genid: drawUuid(context, 'genid') } : undefined),
)

/** The parameter by which each type of virtual switch identifies an interface. */
const portIds: { readonly [type: string]: 'interfaceid' | 'instanceid' } = {
  openvswitch: 'interfaceid',
  '802.1Qbg': 'instanceid',
}

/**
 * Derived from stored values, so that a stored ID can be checked: it is either this one or chosen by a user. It
 * includes the namespace, so that a VM that copies UUID and MAC address from another namespace does not get the same
 * port.
 */
const portId = ({ uuid: own = '' }: Domain, mac: string, { namespace = '' }: Context): string =>
  uuidOf(hash('sha256', ['virtual port', namespace, own.toLowerCase(), mac.toLowerCase()].join('\n'), 'hex'))

export const virtualPort: Rule = {
  name: 'virtualport-id',
  description: 'The ID of an interface on a virtual switch is derived from namespace, UUID and MAC address.',
  about: ['interfaces'],
  apply: (domain, context) =>
    list(domain, 'interfaces').flatMap(({ virtualport, mac }): Addition[] => {
      const key = portIds[virtualport?.type ?? '']
      if (!virtualport || key === undefined) return []
      return [fill(virtualport, { parameters: { [key]: portId(domain, mac?.address ?? '', context) } })]
    }),
}

export const name = rule(
  'name',
  'The name of the domain is the name of the VM. If the API server has yet to generate it, it is `generateName` with a suffix derived from the UUID.',
  ({ uuid: own }, context) => {
    const found = domainName(context, own, context.entropy.previous?.name)
    return found === undefined ? undefined : { name: found }
  },
)

/**
 * The name of a VM's domain. libvirt names files after it, so VMs with the same `generateName` need different ones.
 * @param previous the name that the domain has if it was completed before, perhaps when the VM had no name yet
 */
export function domainName(
  vm: Pick<Context, 'name' | 'generateName'>,
  own: string | undefined,
  previous: string | undefined,
): string | undefined {
  const generated = vm.generateName === undefined ? undefined : generatedName(vm.generateName, own)
  return vm.name === undefined || (generated !== undefined && previous === generated) ? generated : vm.name
}

/** The longest name that the API server generates. */
const maxGeneratedName = 63
const suffixLength = 12

/** Derived from stored values, so that it can be checked after the API server has generated the name of the VM. */
const generatedName = (prefix: string, own = ''): string => {
  const suffix = hash('sha256', `name\n${own.toLowerCase()}`, 'hex').slice(0, suffixLength)
  return `${prefix.slice(0, maxGeneratedName - suffixLength)}${suffix}`
}

export const macAddress: Rule = {
  name: 'interface-mac',
  description:
    'The MAC address of an interface has the prefix 52:54:00 and is derived from the request; one that is in use in the cluster is replaced, except for the VM of a config.',
  about: ['interfaces'],
  apply: (domain, context) => {
    const interfaces = list(domain, 'interfaces')
    const taken = new Set(interfaces.map(({ mac }) => mac?.address?.toLowerCase()))
    const isTakenElsewhere = context.entropy.isFixed === true ? () => false : context.isMacTaken
    const isTaken = (address: string): boolean => taken.has(address) || isTakenElsewhere?.(address) === true
    return interfaces.flatMap((one, index): Addition[] => {
      if (one.mac?.address !== undefined) return []
      const address = context.entropy.previous?.macs[index] ?? drawFreeMac(context, index, isTaken)
      taken.add(address)
      return [fill(one, { mac: { address } })]
    })
  },
}

/** A prefix has 2²⁴ addresses. If this many attempts find no free one, nearly all are in use. */
const mostDraws = 1000

const drawFreeMac = (context: Context, index: number, isTaken: (address: string) => boolean): string => {
  for (let attempt = 0; attempt < mostDraws; attempt += 1) {
    const address = drawMac(context, index, attempt)
    if (!isTaken(address)) return address
  }
  throw new Error(`no free MAC address in ${mostDraws} attempts`)
}
