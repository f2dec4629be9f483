import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from './reading.ts'
import { append, each, fill, list, type Addition, type DeviceOf, type Rule } from './rule.ts'

type Serial = DeviceOf<'serials'>

type Port = Pick<Serial, 'target'>

const portOf = ({ target }: Port): number | undefined => {
  const port = numberOf(target?.port)
  return port === -1 ? undefined : port
}

/** Serial ports with target type isa-serial are numbered separately: each gets the lowest free number. */
const isaPorts = (serials: readonly Port[]): ReadonlyMap<Port, number> => {
  const onIsa = serials.filter(({ target }) => target?.type === 'isa-serial')
  const taken = new Set(onIsa.map(portOf))
  const numbers = new Map<Port, number>()
  let next = 0
  for (const serial of onIsa) {
    if (portOf(serial) !== undefined) continue
    while (taken.has(next)) next++
    numbers.set(serial, next++)
  }
  return numbers
}

/**
 * Every other port without a number gets the one after the highest: of all serial ports, or of the preceding parallel
 * ports.
 */
const portsOf = (domain: Domain, key: 'serials' | 'parallels'): Addition[] => {
  const devices: readonly Port[] = list(domain, key)
  const onIsa = isaPorts(devices)
  const numbers = devices.map((device) => onIsa.get(device) ?? portOf(device))
  let last = key === 'serials' ? Math.max(-1, ...numbers.map((number) => number ?? -1)) : -1
  return devices.flatMap((device, index) => {
    const port = numbers[index] ?? last + 1
    last = Math.max(last, port)
    return portOf(device) === undefined ? [fill(device, { target: { port } })] : []
  })
}

export const serialPort: Rule = {
  name: 'serial-port',
  description:
    'A serial or parallel port without a number gets the next one; a serial port with target type isa-serial gets the first free one.',
  about: ['serials', 'parallels'],
  apply: (domain) => [...portsOf(domain, 'serials'), ...portsOf(domain, 'parallels')],
}

/** The model of each target type of a serial port. */
const chips = {
  'isa-serial': 'isa-serial',
  'pci-serial': 'pci-serial',
  'usb-serial': 'usb-serial',
  'isa-debug': 'isa-debugcon',
} as const

const kindOf = ({ target }: Serial): keyof typeof chips => target?.type ?? 'isa-serial'

export const serialTarget = each('serials')(
  'serial-target',
  'The target type of a serial port is `isa-serial`; each target type has its own model.',
  (serial) => {
    const type = kindOf(serial)
    return { target: { type, model: { name: chips[type] } } }
  },
)

export const characterType: Rule = {
  name: 'character-device-type',
  description: 'The type of a character device is `pty`, a pseudo terminal.',
  about: ['serials', 'consoles', 'parallels', 'channels'],
  apply: ({ devices }) => [
    ...(devices?.serials ?? []).map((one) => fill(one, { type: 'pty' })),
    ...(devices?.consoles ?? []).map((one) => fill(one, { type: 'pty' })),
    ...(devices?.parallels ?? []).map((one) => fill(one, { type: 'pty' })),
    ...(devices?.channels ?? []).map((one) => fill(one, { type: 'pty' })),
  ],
}

export const consoleType = each('consoles')(
  'console-type',
  'The target type of a console is `serial`: the first serial port.',
  () => ({
    target: { type: 'serial' },
  }),
)

/** Whether a serial port can also be the console. */
const canBeConsole = (serial: Serial | undefined): boolean => serial !== undefined && kindOf(serial) === 'isa-serial'

/**
 * The serial console and the first serial port are one device under two names: if only one of them exists, the other is
 * added.
 */
export const consoleSerial: Rule = {
  name: 'console-serial',
  description:
    'The serial console and the first serial port are one device: if only one of them is defined, the other is added.',
  about: ['serials', 'consoles'],
  apply: (domain) => {
    const { devices } = domain
    if (!devices) return []
    const [firstSerial] = list(domain, 'serials')
    const consoles = list(domain, 'consoles')
    const serialConsole = consoles.find(({ target }) => target?.type === 'serial')
    if (serialConsole && !firstSerial) {
      const { type, source, sources, protocol, log, address } = serialConsole
      const same = { type, source, sources, protocol, log, address }
      return [append(devices, 'serials', { ...same, target: { port: 0 } } as object)]
    }
    if (!serialConsole && firstSerial && canBeConsole(firstSerial)) {
      const { type, source, sources, protocol, log } = firstSerial
      return [
        append(devices, 'consoles', {
          type,
          source,
          sources,
          protocol,
          log,
          target: { type: 'serial' },
        } as object),
      ]
    }
    return []
  },
}

export const consolePort: Rule = {
  name: 'console-port',
  description: 'Consoles are numbered in their order; the serial console has the number of its serial port.',
  about: ['consoles'],
  apply: (domain) => {
    const consoles = list(domain, 'consoles')
    const serial = consoles.findIndex(({ target }) => target?.type === 'serial')
    const portOfSerial = numberOf(list(domain, 'serials')[0]?.target?.port) ?? 0
    return consoles.map((one, index) => {
      const port = index === serial ? portOfSerial : index < serial ? index + 1 : index
      return fill(one, { target: { port } })
    })
  },
}

interface SourceLabel {
  readonly label?: string
}

interface Chardev {
  readonly type?: string
  readonly protocol?: { readonly type?: string }
  readonly source?: Source
  readonly sources?: readonly Source[]
}

interface Source {
  readonly seclabel?: SourceLabel
  readonly seclabels?: readonly SourceLabel[]
  readonly path?: string
  readonly mode?: string
}

const chardevs = ({ devices = {} }: Domain): readonly Chardev[] => [
  ...(devices.serials ?? []),
  ...(devices.parallels ?? []),
  ...(devices.consoles ?? []),
  ...(devices.channels ?? []),
  ...(devices.redirdevs ?? []),
  ...(devices.smartcards ?? []),
  ...(devices.rngs ?? []).flatMap(({ backend }) => (backend?.model === 'egd' ? [backend] : [])),
]

/** The sources of a device. */
const sourcesOf = ({ source, sources = [] }: Chardev): readonly Source[] => [...(source ? [source] : []), ...sources]

/** Whether another process may be connected to a device of this type. */
const connects = (type: string | undefined, { path }: Source): boolean =>
  type === 'tcp' || type === 'udp' || (type === 'unix' && path !== undefined)

export const socketMode: Rule = {
  name: 'socket-mode',
  description: 'QEMU connects to a socket rather than listening on it.',
  about: ['serials', 'parallels', 'consoles', 'channels', 'redirdevs', 'smartcards', 'rngs'],
  apply: (domain) =>
    chardevs(domain).flatMap((device) =>
      sourcesOf(device)
        .filter((source) => connects(device.type, source))
        .map((source) => fill(source, { mode: 'connect' })),
    ),
}

export const tcpProtocol: Rule = {
  name: 'tcp-protocol',
  description: 'The protocol of a TCP connection is `raw`.',
  about: ['serials', 'parallels', 'consoles', 'channels', 'redirdevs', 'smartcards', 'rngs'],
  apply: (domain) =>
    chardevs(domain)
      .filter(({ type }) => type === 'tcp')
      .map((device) => fill(device, { protocol: { type: 'raw' } })),
}

/** The sources of all character devices. */
export const characterSources = (domain: Domain): readonly Source[] => chardevs(domain).flatMap(sourcesOf)
