import { hash } from 'node:crypto'
import type { Domain } from '../../api/domain/domain.ts'
import { fill, list, rule, type Addition, type Context, type Rule } from './rule.ts'

/** Hex digits that are the same for the same request and purpose, and look like chance otherwise. */
const draw = ({ entropy: { uid } }: Context, purpose: string): string => hash('sha256', `${uid}\n${purpose}`, 'hex')

const withDashes = (digits: string): string =>
  [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join('-')

export const drawUuid = (context: Context, purpose: string): string => uuidOf(draw(context, purpose))

/** A UUID of version 4, as libvirt draws them. */
const uuidOf = (digits: string): string => {
  const variant = ((Number.parseInt(digits.charAt(16), 16) & 0x3) | 0x8).toString(16)
  return withDashes(`${digits.slice(0, 12)}4${digits.slice(13, 16)}${variant}${digits.slice(17, 32)}`)
}

/** 52:54:00 is the prefix that QEMU and libvirt use. `attempt`: drawn again after a clash. */
export const drawMac = (context: Context, index: number, attempt = 0): string => {
  const digits = draw(context, `mac ${index} ${attempt}`)
  return `52:54:00:${digits.slice(0, 2)}:${digits.slice(2, 4)}:${digits.slice(4, 6)}`
}

/** The UUID that SMBIOS shows to the guest, as libvirt finds it: the first of the last table that has one. */
const smbiosUuid = ({ sysinfos = [] }: Domain): string | undefined => {
  const entries = sysinfos
    .filter(({ type }) => type === 'smbios')
    .flatMap(({ system }) => system?.entries?.find(({ name }) => name === 'uuid') ?? [])
  const digits = entries.at(-1)?.value?.replaceAll('-', '').toLowerCase() ?? ''
  return /^[0-9a-f]{32}$/.test(digits) ? withDashes(digits) : undefined
}

export const uuid = rule(
  'uuid',
  'A VM without UUID has the one that its SMBIOS shows; without that it is given one, drawn from the request.',
  (domain, context) =>
    domain.uuid
      ? undefined
      : { uuid: smbiosUuid(domain) ?? context.entropy.recalled?.uuid ?? drawUuid(context, 'uuid') },
)

export const generationId = rule(
  'genid',
  'An empty generation id is replaced by a generated one.',
  ({ genid }, context) => (genid === '' ? { genid: drawUuid(context, 'genid') } : undefined),
)

/** What a virtual switch knows an interface by. */
const portIds: { readonly [type: string]: 'interfaceid' | 'instanceid' } = {
  openvswitch: 'interfaceid',
  '802.1Qbg': 'instanceid',
}

/**
 * Derived from stored values, so that a stored id can be checked: it is either this one, or a user chose it. With the
 * namespace in it, a VM that copies UUID and MAC address of one in another namespace does not get that one's port.
 */
const portId = ({ uuid: own = '' }: Domain, mac: string, { namespace = '' }: Context): string =>
  uuidOf(hash('sha256', ['virtual port', namespace, own.toLowerCase(), mac.toLowerCase()].join('\n'), 'hex'))

export const virtualPort: Rule = {
  name: 'virtualport-id',
  description: 'What a virtual switch knows an interface by is derived from namespace, UUID and MAC address.',
  about: ['interfaces'],
  apply: (domain, context) =>
    list(domain, 'interfaces').flatMap(({ virtualport, mac }): Addition[] => {
      const key = portIds[virtualport?.type ?? '']
      if (!virtualport || key === undefined) return []
      return [fill(virtualport, { parameters: { [key]: portId(domain, mac?.address ?? '', context) } })]
    }),
}

export const name = rule('name', 'The domain is called as the VM is.', (_, context) =>
  context.name === undefined ? undefined : { name: context.name },
)

export const macAddress: Rule = {
  name: 'interface-mac',
  description:
    'An interface without MAC address is given one with the prefix 52:54:00, drawn from the request; one that is taken in the cluster is drawn again, except for the VM of a config.',
  about: ['interfaces'],
  apply: (domain, context) => {
    const interfaces = list(domain, 'interfaces')
    const taken = new Set(interfaces.map(({ mac }) => mac?.address?.toLowerCase()))
    const isTakenElsewhere = context.entropy.isFixed === true ? () => false : context.isMacTaken
    const isTaken = (address: string): boolean => taken.has(address) || isTakenElsewhere?.(address) === true
    return interfaces.flatMap((one, index): Addition[] => {
      if (one.mac?.address !== undefined) return []
      const address = context.entropy.recalled?.macs[index] ?? drawFreeMac(context, index, isTaken)
      taken.add(address)
      return [fill(one, { mac: { address } })]
    })
  },
}

/** A prefix has 2²⁴ addresses: in a cluster where this many draws find none that is free, nearly none is left. */
const mostDraws = 1000

const drawFreeMac = (context: Context, index: number, isTaken: (address: string) => boolean): string => {
  for (let attempt = 0; attempt < mostDraws; attempt += 1) {
    const address = drawMac(context, index, attempt)
    if (!isTaken(address)) return address
  }
  throw new Error(`no free MAC address in ${mostDraws} draws`)
}
